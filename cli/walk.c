/* Searches folders; see walk.h for the rules.
 *
 * Folders wait in a list instead of on the C stack, so depth costs neither stack nor descriptors.
 * Links to folders wait in a second list until all real folders are done: which name a folder is
 * found under then does not depend on the order in which the file system lists it. */
#define _DEFAULT_SOURCE /* d_type */
#include "cli/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/folder_set.h"
#include "engine/base/error.h"

enum { SNIFF_BYTES = 32 };

typedef struct {
    fc_path_list *inputs;
    fc_walk_skipped *skipped;
    fc_path_list folders; /* to search; taken from the end */
    fc_path_list links;   /* links to folders, to search when no real folder is left */
    fc_folder_set seen;
} search;

int fc_walk_is_picture_name(const char *name)
{
    static const char *const endings[] = { "jpg",  "jpeg", "jpe",  "jfif", "png",  "gif", "webp",
                                           "bmp",  "tif",  "tiff", "heic", "heif", "avif", "jxl" };
    const char *dot = strrchr(name, '.');

    if (!dot)
        return 0;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (strcasecmp(dot + 1, endings[i]) == 0)
            return 1;
    }
    return 0;
}

/* Whether the regular file name in folder begins like a JPEG or PNG. */
static int has_picture_content(int folder, const char *name)
{
    unsigned char head[SNIFF_BYTES];
    const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (file < 0)
        return 0;
    const ssize_t bytes = read(file, head, sizeof head);
    close(file);
    const char *format = bytes > 0 ? flatclip_image_format(head, (size_t)bytes) : NULL;
    return format && (strcmp(format, "JPEG") == 0 || strcmp(format, "PNG") == 0);
}

static flatclip_status add_entry(search *s, int folder, const char *path,
                                 const struct dirent *entry, flatclip_error *err)
{
    const char *name = entry->d_name;
    struct stat info = { 0 };

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return FLATCLIP_OK;
    if (name[0] == '.') {
        s->skipped->hidden++;
        return FLATCLIP_OK;
    }
    if (entry->d_type == DT_DIR)
        return fc_path_list_join(&s->folders, path, name, err);
    if (entry->d_type == DT_REG)
        info.st_mode = S_IFREG;
    else if (fstatat(folder, name, &info, 0) != 0)
        info.st_mode = 0; /* a broken link */
    if (S_ISDIR(info.st_mode)) {
        const int is_link = entry->d_type == DT_LNK ||
                            (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                             S_ISLNK(info.st_mode));
        return fc_path_list_join(is_link ? &s->links : &s->folders, path, name, err);
    }
    if (S_ISREG(info.st_mode) &&
        (fc_walk_is_picture_name(name) || has_picture_content(folder, name)))
        return fc_path_list_join(s->inputs, path, name, err);
    s->skipped->other++;
    return FLATCLIP_OK;
}

static flatclip_status search_open_folder(search *s, DIR *folder, const char *path,
                                          flatclip_error *err)
{
    const struct dirent *entry;

    errno = 0;
    while ((entry = readdir(folder)) != NULL) {
        FC_TRY(add_entry(s, dirfd(folder), path, entry, err));
        errno = 0;
    }
    return errno ? fc_path_list_join(s->inputs, "", path, err) : FLATCLIP_OK;
}

static flatclip_status search_folder(search *s, const char *path, flatclip_error *err)
{
    struct stat info;
    DIR *folder = opendir(path);

    if (!folder || fstat(dirfd(folder), &info) != 0) {
        if (folder)
            closedir(folder);
        return fc_path_list_join(s->inputs, "", path, err);
    }
    const fc_folder_id id = { info.st_dev, info.st_ino };
    const int is_new = fc_folder_set_add(&s->seen, id);
    flatclip_status status = FLATCLIP_OK;
    if (is_new < 0)
        status = fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to search %s", path);
    else if (is_new)
        status = search_open_folder(s, folder, path, err);
    else
        s->skipped->other++;
    closedir(folder);
    return status;
}

static flatclip_status search_all(search *s, flatclip_error *err)
{
    for (;;) {
        while (s->folders.count > 0)
            FC_TRY(search_folder(s, s->folders.paths[--s->folders.count], err));
        if (s->links.count == 0)
            return FLATCLIP_OK;

        /* One link, then the real folders behind it: the first in bytewise order goes first. */
        fc_path_list_sort(&s->links, 0);
        const char *path = s->links.paths[0];
        memmove(s->links.paths, s->links.paths + 1, --s->links.count * sizeof *s->links.paths);
        FC_TRY(search_folder(s, path, err));
    }
}

/* Marks the folders above path as seen, so that a link that leads up to one of them is a loop. */
static void mark_folders_above(search *s, const char *path)
{
    struct stat info, above;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    while (folder >= 0 && fstat(folder, &info) == 0) {
        const int parent = openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(folder);
        folder = parent;
        if (parent < 0 || fstat(parent, &above) != 0 ||
            (above.st_dev == info.st_dev && above.st_ino == info.st_ino))
            break; /* "/" is its own parent */
        const fc_folder_id id = { above.st_dev, above.st_ino };
        fc_folder_set_add(&s->seen, id); /* without memory the search itself fails, and says so */
    }
    if (folder >= 0)
        close(folder);
}

flatclip_status fc_walk(const char *path, fc_path_list *list, fc_walk_skipped *skipped,
                        flatclip_error *err)
{
    search s = { list, skipped, { 0 }, { 0 }, { 0 } };
    struct stat info;
    const size_t first = list->count;

    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return fc_path_list_join(list, "", path, err);

    mark_folders_above(&s, path);
    flatclip_status status = fc_path_list_join(&s.folders, "", path, err);
    if (status == FLATCLIP_OK)
        status = search_all(&s, err);
    fc_path_list_sort(list, first);
    fc_path_list_free(&s.folders);
    fc_path_list_free(&s.links);
    fc_folder_set_free(&s.seen);
    return status;
}
