/* Files without a name (O_TMPFILE), or with a temporary one, that are renamed in the end. */
#define _GNU_SOURCE
#include "weights_tools/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WRITEBACK_BYTES = 16 << 20,  /* after which the disk is set to work */
    NAME_TRIES = 100
};

struct fc_whole_file {
    char *path;
    char *temporary;             /* name of the unfinished file, or NULL while it has none */
    int file;
    uint64_t unsynced;           /* bytes since the last start_writeback */
};

flatclip_status fc_whole_file_failed(const fc_whole_file *f, int problem, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %.200s: %s", f->path, strerror(problem));
}

/* -- Opening --------------------------------------------------------------------------------- */

/* Calls make with one temporary name beside the final one after the other, until it succeeds or
 * fails for another reason than that the name is taken. */
static flatclip_status with_temporary_name(fc_whole_file *f, int (*make)(fc_whole_file *),
                                           flatclip_error *err)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        free(f->temporary);
        if (asprintf(&f->temporary, "%s.%ld.%d.tmp", f->path, (long)getpid(), i) < 0) {
            f->temporary = NULL;
            return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to write %.200s", f->path);
        }
        if (make(f))
            return FLATCLIP_OK;
        if (errno != EEXIST)
            break;
    }
    const flatclip_status status = fc_whole_file_failed(f, errno, err);
    free(f->temporary); /* somebody else's, or nobody's */
    f->temporary = NULL;
    return status;
}

static int create_named(fc_whole_file *f)
{
    f->file = open(f->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return f->file >= 0;
}

/* A file without a name in the folder of path vanishes by itself however the program ends. Returns
 * -1 where the file system, or the lack of /proc, does not allow it. */
static int open_nameless(const char *path)
{
#ifdef O_TMPFILE
    char *copy = access("/proc/self/fd", X_OK) == 0 ? strdup(path) : NULL;
    const int file = copy ? open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
    free(copy);
    return file;
#else
    (void)path;
    return -1;
#endif
}

static int link_nameless(fc_whole_file *f)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->file);
    return linkat(AT_FDCWD, self, AT_FDCWD, f->temporary, AT_SYMLINK_FOLLOW) == 0;
}

/* Renaming would put a plain file in the place of a device. */
static flatclip_status check_place(const fc_whole_file *f, flatclip_error *err)
{
    struct stat info;
    if (stat(f->path, &info) != 0 || S_ISREG(info.st_mode))
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %.200s: it is %s; choose another name",
                   f->path, S_ISDIR(info.st_mode) ? "a folder" : "no plain file");
}

static flatclip_status start(fc_whole_file *f, flatclip_error *err)
{
    FC_TRY(check_place(f, err));
    f->file = open_nameless(f->path);
    if (f->file >= 0)
        return FLATCLIP_OK;
    return with_temporary_name(f, create_named, err);
}

flatclip_status fc_whole_file_open(const char *path, fc_whole_file **file, flatclip_error *err)
{
    *file = NULL;
    fc_whole_file *f = calloc(1, sizeof *f);
    char *copy = strdup(path);
    if (!f || !copy) {
        free(f);
        free(copy);
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to write %.200s", path);
    }
    f->path = copy;
    f->file = -1;
    const flatclip_status status = start(f, err);
    if (status == FLATCLIP_OK)
        *file = f;
    else
        fc_whole_file_abandon(f);
    return status;
}

/* -- Writing --------------------------------------------------------------------------------- */

/* Asks the system to bring to the disk what was written, so that the fsync at the end finds little
 * left. A hint: where it is not known, or fails, nothing is lost. */
static void start_writeback(int file)
{
#ifdef SYNC_FILE_RANGE_WRITE
    sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)file;
#endif
}

int fc_whole_file_put(fc_whole_file *f, const void *data, size_t bytes)
{
    const char *at = data;
    f->unsynced += bytes;
    while (bytes) {
        const ssize_t put = write(f->file, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        at += put;
        bytes -= (size_t)put;
    }
    if (f->unsynced > WRITEBACK_BYTES) {
        start_writeback(f->file);
        f->unsynced = 0;
    }
    return 0;
}

int fc_whole_file_patch(fc_whole_file *f, uint64_t offset, const void *data, size_t bytes)
{
    if (lseek(f->file, (off_t)offset, SEEK_SET) < 0)
        return errno;
    return fc_whole_file_put(f, data, bytes);
}

/* -- Ending ---------------------------------------------------------------------------------- */

/* The rename itself is on the disk only when the folder is. Not every file system can do that;
 * the file is whole all the same. */
static void sync_folder(const char *path)
{
    char *copy = strdup(path);
    const int folder = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
    free(copy);
}

static flatclip_status finish(fc_whole_file *f, flatclip_error *err)
{
    if (fsync(f->file))
        return fc_whole_file_failed(f, errno, err);
    if (!f->temporary)
        FC_TRY(with_temporary_name(f, link_nameless, err));
    const int closed = close(f->file);
    f->file = -1;
    if (closed || rename(f->temporary, f->path))
        return fc_whole_file_failed(f, errno, err);
    free(f->temporary); /* it has another name now: abandon must not remove it */
    f->temporary = NULL;
    sync_folder(f->path);
    return FLATCLIP_OK;
}

flatclip_status fc_whole_file_commit(fc_whole_file *f, flatclip_error *err)
{
    const flatclip_status status = finish(f, err);
    fc_whole_file_abandon(f);
    return status;
}

void fc_whole_file_abandon(fc_whole_file *f)
{
    if (!f)
        return;
    if (f->file >= 0)
        close(f->file);
    if (f->temporary)
        unlink(f->temporary);
    free(f->temporary);
    free(f->path);
    free(f);
}
