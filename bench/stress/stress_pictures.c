/* Finds, reads and remembers the pictures of a run. */
#define _GNU_SOURCE
#include "bench/stress/stress_pictures.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int add_file(stress_pictures *p, const char *path)
{
    if (p->count < STRESS_MAX_PICTURES)
        p->paths[p->count] = strdup(path);
    return p->count < STRESS_MAX_PICTURES && p->paths[p->count++] != NULL;
}

static int add_path(stress_pictures *p, const char *path, int depth);

static int add_folder(stress_pictures *p, const char *path, int depth)
{
    char inside[4096];
    int good = 1;
    DIR *folder = opendir(path);
    for (struct dirent *entry; good && folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        good = add_path(p, inside, depth + 1);
    }
    if (folder)
        closedir(folder);
    return folder && good;
}

static int add_path(stress_pictures *p, const char *path, int depth)
{
    struct stat info;
    if (depth > 16)
        return 1;
    if (stat(path, &info) != 0) {
        fprintf(stderr, "flatclip-stress: %s: %s\n", path, strerror(errno));
        return 0;
    }
    return S_ISDIR(info.st_mode) ? add_folder(p, path, depth) : add_file(p, path);
}

static int read_file(const char *path, flatclip_bytes *bytes)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file)
        return 0;
    char *data = fstat(fileno(file), &info) == 0 ? malloc((size_t)info.st_size + 1) : NULL;
    *bytes = (flatclip_bytes){ data, data ? fread(data, 1, (size_t)info.st_size, file) : 0 };
    fclose(file);
    return data != NULL;
}

static int order_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *const usual[] = { "tests/data/images", "tests/data/exif", "tests/data/cases" };

int stress_pictures_are_here(void)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (access(usual[i], R_OK) == 0)
            return 1;
    return 0;
}

static int find_files(stress_pictures *p, char **paths, int path_count)
{
    struct stat info;
    int good = 1;
    for (int i = 0; good && i < path_count; i++)
        good = add_path(p, paths[i], 0);
    for (size_t i = 0; good && path_count == 0 && i < sizeof usual / sizeof *usual; i++)
        good = stat(usual[i], &info) != 0 || add_path(p, usual[i], 0);
    qsort(p->paths, p->count, sizeof *p->paths, order_paths);
    return good;
}

int stress_pictures_open(stress_pictures *p, char **paths, int path_count)
{
    *p = (stress_pictures){ .paths = calloc(STRESS_MAX_PICTURES, sizeof *p->paths),
                            .bytes = calloc(STRESS_MAX_PICTURES, sizeof *p->bytes),
                            .statuses = calloc(STRESS_MAX_PICTURES, sizeof *p->statuses) };
    int good = p->paths && p->bytes && p->statuses && find_files(p, paths, path_count);
    for (size_t i = 0; good && i < p->count; i++)
        good = read_file(p->paths[i], &p->bytes[i]);
    if (!good)
        fprintf(stderr, "flatclip-stress: the pictures cannot be read\n");
    return good;
}

int stress_pictures_learn(stress_pictures *p, flatclip_session *session, int dim)
{
    flatclip_error err = { FLATCLIP_OK, "no memory for embeddings" };
    p->dim = dim;
    p->rows = malloc((p->count + 1) * (size_t)dim * sizeof *p->rows);
    for (size_t i = 0; p->rows && i < p->count; i++) {
        const char *path = p->paths[i];
        p->statuses[i] = flatclip_encode_files(session, &path, 1, p->rows + i * (size_t)dim, NULL,
                                               &err);
        if (p->statuses[i] == FLATCLIP_ERR_ARGUMENT || p->statuses[i] == FLATCLIP_ERR_DEVICE)
            break;
        err.status = FLATCLIP_OK;
    }
    if (!p->rows || err.status != FLATCLIP_OK) {
        fprintf(stderr, "flatclip-stress: %s\n", err.message);
        return 0;
    }
    return 1;
}

int stress_pictures_agree(const stress_pictures *p, size_t i, flatclip_status status,
                          const float *row)
{
    const size_t dim = (size_t)p->dim;
    return status == p->statuses[i] &&
           (status != FLATCLIP_OK || memcmp(row, p->rows + i * dim, dim * sizeof *row) == 0);
}

void stress_pictures_close(stress_pictures *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free((void *)p->bytes[i].data);
        free(p->paths[i]);
    }
    free(p->paths);
    free(p->bytes);
    free(p->statuses);
    free(p->rows);
}
