/* Folder and lock of a download; see fetch_place.h. */
#define _GNU_SOURCE
#include "weights_tools/fetch_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_DIGITS = 16, NAME_BYTES = 100 };

static flatclip_status fail_cache(const char *what, const char *path, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_IO,
                   "cannot %s %.150s: %s; set FLATCLIP_CACHE to a folder on a local disk that you "
                   "may write to", what, path, strerror(errno));
}

/* Makes path and every folder above it; those that are there already are good. */
static flatclip_status make_folders(char *path, flatclip_error *err)
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        const int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        const int reason = errno;
        if (slash)
            *slash = '/';
        errno = reason;
        if (failed)
            return fail_cache("make the folder", path, err);
        if (!slash)
            return FLATCLIP_OK;
    }
}

/* The last part of url as a file name, with nothing in it that could lead elsewhere. */
static void name_of(const char *url, char name[NAME_BYTES])
{
    const size_t end = strcspn(url, "?#");
    size_t start = end, used = 0;
    while (start > 0 && url[start - 1] != '/')
        start--;
    for (size_t i = start; i < end && used + 1 < NAME_BYTES; i++) {
        const char c = url[i];
        const int plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && used);
        if (plain)
            name[used++] = c;
    }
    name[used] = '\0';
    if (!used)
        snprintf(name, NAME_BYTES, "weights");
}

static int set_names(fc_fetch_place *place, const char *cache, const char *url,
                     const char *sha256)
{
    char name[NAME_BYTES];
    name_of(url, name);
    if (asprintf(&place->folder, "%s/download-%.*s", cache, NAME_DIGITS, sha256) < 0)
        place->folder = NULL;
    if (!place->folder || asprintf(&place->lock, "%s.lock", place->folder) < 0)
        place->lock = NULL;
    if (!place->lock || asprintf(&place->whole, "%s/%s", place->folder, name) < 0)
        place->whole = NULL;
    if (!place->whole || asprintf(&place->part, "%s.part", place->whole) < 0)
        place->part = NULL;
    return place->part != NULL;
}

/* Whether the file that is locked still has its name: the process before may have removed it. */
static int still_named(const fc_fetch_place *place)
{
    struct stat ours, named;
    return fstat(place->lock_file, &ours) == 0 && stat(place->lock, &named) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static int lock_now(int file, int how)
{
    int result;
    do
        result = flock(file, how);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

static flatclip_status take_lock(fc_fetch_place *place, void (*waits)(const void *),
                                 const void *context, flatclip_error *err)
{
    for (;;) {
        place->lock_file = open(place->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (place->lock_file < 0)
            return fail_cache("write", place->lock, err);
        int locked = lock_now(place->lock_file, LOCK_EX | LOCK_NB);
        if (!locked && errno == EWOULDBLOCK) {
            if (waits)
                waits(context);
            waits = NULL; /* once is enough */
            locked = lock_now(place->lock_file, LOCK_EX);
        }
        if (!locked)
            return fail_cache("lock", place->lock, err);
        if (still_named(place))
            return FLATCLIP_OK;
        close(place->lock_file);
    }
}

flatclip_status fc_fetch_place_open(fc_fetch_place *place, const char *cache, const char *url,
                                    const char *sha256, void (*waits)(const void *context),
                                    const void *context, flatclip_error *err)
{
    memset(place, 0, sizeof *place);
    place->lock_file = -1;
    char *above = strdup(cache);
    if (!above || !set_names(place, cache, url, sha256)) {
        free(above);
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to fetch %.200s", url);
    }
    const flatclip_status status = make_folders(above, err);
    free(above);
    FC_TRY(status);
    FC_TRY(take_lock(place, waits, context, err));
    if (mkdir(place->folder, 0777) != 0 && errno != EEXIST)
        return fail_cache("make the folder", place->folder, err);
    return FLATCLIP_OK;
}

void fc_fetch_place_close(fc_fetch_place *place)
{
    if (place->lock_file >= 0) {
        rmdir(place->folder); /* fails where there is something in it */
        unlink(place->lock);  /* while it is ours: see still_named */
        close(place->lock_file);
    }
    free(place->folder);
    free(place->part);
    free(place->whole);
    free(place->lock);
    memset(place, 0, sizeof *place);
    place->lock_file = -1;
}
