/* A folder for a test's files, removed with them when the test ends. */
#ifndef TEMP_FOLDER_H
#define TEMP_FOLDER_H

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char path[PATH_MAX / 2];
} temp_folder;

/* A cmocka setup: *state becomes the folder. */
static inline int make_temp_folder(void **state)
{
    const char *base = getenv("TMPDIR");
    temp_folder *folder = malloc(sizeof *folder);
    if (!folder)
        return -1;
    snprintf(folder->path, sizeof folder->path, "%s/flatclip-test-XXXXXX", base ? base : "/tmp");
    *state = folder;
    return mkdtemp(folder->path) ? 0 : -1;
}

/* How many files are in it. */
static inline int count_temp_files(const temp_folder *folder)
{
    int count = 0;
    DIR *dir = opendir(folder->path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    if (dir)
        closedir(dir);
    return count;
}

/* "FOLDER/name" into path, which it returns. */
static inline const char *temp_path(const temp_folder *folder, const char *name,
                                    char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", folder->path, name);
    return path;
}

/* The teardown that belongs to make_temp_folder. Folders within must be empty. */
static inline int remove_temp_folder(void **state)
{
    temp_folder *folder = *state;
    DIR *dir = opendir(folder->path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[PATH_MAX];
        remove(temp_path(folder, entry->d_name, path));
    }
    if (dir)
        closedir(dir);
    const int failed = rmdir(folder->path);
    free(folder);
    return failed;
}

#endif
