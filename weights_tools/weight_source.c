/* Finding the weights of a checkpoint, telling what kind of file holds them, and opening it. */
#define _GNU_SOURCE
#include "weights_tools/weight_source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TENSOR_LIMIT = 100000 }; /* training checkpoints of the largest CLIPs have some 4,000 */

/* -- Finding --------------------------------------------------------------------------------- */

/* The usual names in a folder; what comes first is taken. */
static const char *const USUAL[] = {
    "model.safetensors", "open_clip_model.safetensors", "model.safetensors.index.json",
    "pytorch_model.bin", "open_clip_pytorch_model.bin", "pytorch_model.bin.index.json",
};
enum { USUAL_COUNT = sizeof USUAL / sizeof *USUAL };

static int is_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat info;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length < (int)sizeof path && !stat(path, &info) && S_ISREG(info.st_mode);
}

/* The path of the weights: path itself, or the file of a usual name in the folder path. */
static flatclip_status locate(const char *path, char **found, flatclip_error *err)
{
    struct stat info;
    int i = 0;
    *found = NULL;
    if (stat(path, &info))
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", path, strerror(errno));
    if (S_ISREG(info.st_mode)) {
        *found = strdup(path);
    } else if (!S_ISDIR(info.st_mode)) {
        return fc_fail(err, FLATCLIP_ERR_IO, "%.200s is neither a file nor a folder", path);
    } else {
        while (i < USUAL_COUNT && !is_file(path, USUAL[i]))
            i++;
        if (i == USUAL_COUNT)
            return fc_fail(err, FLATCLIP_ERR_IO,
                           "folder %.80s holds no weights under a usual name "
                           "(model.safetensors, pytorch_model.bin, open_clip_model.safetensors, "
                           "open_clip_pytorch_model.bin or an index of shards): give the file "
                           "itself", path);
        const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
        if (asprintf(found, "%s%s%s", path, slash, USUAL[i]) < 0)
            *found = NULL;
    }
    return *found ? FLATCLIP_OK
                  : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", path);
}

/* -- Telling kinds --------------------------------------------------------------------------- */

typedef flatclip_status open_fn(fc_weight_source *source, flatclip_error *err);

/* Files that users give us instead of weights, or weights of kinds that are not read. */
static const struct {
    const char *head, *is, *advice;
} FOREIGN[] = {
    { "version https://git-lfs", "a Git LFS pointer, not the weights", "run: git lfs pull" },
    { "<!DOCTYPE", "a web page", "download the file itself" },
    { "<!doctype", "a web page", "download the file itself" },
    { "<html", "a web page", "download the file itself" },
    { "GGUF", "a GGUF model, as clip.cpp uses", "convert the original weights" },
    { "\x89HDF", "an HDF5 file, as TensorFlow and Keras write", "get the PyTorch weights" },
    { "\x1f\x8b", "compressed with gzip", "run gunzip on it" },
    { "\x08", "an ONNX model or another protocol buffer", "convert the original weights" },
};

static flatclip_status refuse_foreign(const char *path, const char *head, size_t bytes,
                                      flatclip_error *err)
{
    for (size_t i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; i++) {
        const size_t length = strlen(FOREIGN[i].head);
        /* A header of .safetensors may be as short as 8 bytes, too: its brace tells it. */
        if (bytes >= length && !memcmp(head, FOREIGN[i].head, length) && head[8] != '{')
            return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s is %s: %s", path, FOREIGN[i].is,
                           FOREIGN[i].advice);
    }
    if (bytes >= 262 && !memcmp(head + 257, "ustar", 5))
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.120s is a tar archive, as PyTorch before 0.2 wrote or as downloads are "
                       "packed: unpack it, and save old weights again with a newer PyTorch", path);
    return FLATCLIP_OK;
}

static int is_index(const char *path)
{
    static const char tail[] = ".index.json";
    const size_t length = strlen(path);
    return length >= sizeof tail && !strcmp(path + length - (sizeof tail - 1), tail);
}

/* Which function opens path. A zip archive and a pickle are torch's; an index is told by its name,
 * as it is JSON like any other; all else must be .safetensors, whose reader says what is wrong. */
static flatclip_status tell_kind(const char *path, open_fn **open, flatclip_error *err)
{
    char head[512] = { 0 };
    FILE *file = fopen(path, "rb");
    if (!file)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", path, strerror(errno));
    const size_t bytes = fread(head, 1, sizeof head, file);
    const int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", path, strerror(failed));
    if (!bytes)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.200s is empty", path);
    FC_TRY(refuse_foreign(path, head, bytes, err));
    const unsigned char protocol = (unsigned char)head[1];
    if (is_index(path))
        *open = fc_source_shards_open;
    else if (!memcmp(head, "PK", 2) || ((unsigned char)head[0] == 0x80 && protocol <= 5 &&
                                        head[8] != '{'))
        *open = fc_source_torch_open;
    else
        *open = fc_source_safetensors_open;
    return FLATCLIP_OK;
}

/* -- Names ----------------------------------------------------------------------------------- */

/* qsort hands no context to its comparison: names travel with their indices. */
typedef struct {
    const char *name;
    size_t index;
} named_index;

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const named_index *)a)->name, ((const named_index *)b)->name);
}

static flatclip_status sort_names(fc_weight_source *source, flatclip_error *err)
{
    if (source->count > TENSOR_LIMIT)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s has %zu tensors, at most %d are read",
                       source->path, source->count, TENSOR_LIMIT);
    named_index *sorted = malloc((source->count + 1) * sizeof *sorted);
    source->by_name = malloc((source->count + 1) * sizeof *source->by_name);
    if (!sorted || !source->by_name) {
        free(sorted);
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", source->path);
    }
    for (size_t i = 0; i < source->count; i++)
        sorted[i] = (named_index){ source->at(source, i)->name, i };
    qsort(sorted, source->count, sizeof *sorted, compare_names);
    flatclip_status status = FLATCLIP_OK;
    for (size_t i = 0; i < source->count; i++) {
        source->by_name[i] = sorted[i].index;
        if (i && !strcmp(sorted[i].name, sorted[i - 1].name))
            status = fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s holds tensor %.80s twice",
                             source->path, sorted[i].name);
    }
    free(sorted);
    return status;
}

size_t fc_weight_source_find(const fc_weight_source *source, const char *name)
{
    size_t low = 0, high = source->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const size_t index = source->by_name[middle];
        const int order = strcmp(name, source->at(source, index)->name);
        if (!order)
            return index;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return source->count;
}

const char *fc_weight_source_file(const fc_weight_source *source, size_t index)
{
    return source->file ? source->file(source, index) : index ? NULL : source->path;
}

/* -- Opening --------------------------------------------------------------------------------- */

static flatclip_status open_source(fc_weight_source *source, const char *path, flatclip_error *err)
{
    open_fn *open = NULL;
    FC_TRY(locate(path, &source->path, err));
    FC_TRY(tell_kind(source->path, &open, err));
    FC_TRY(open(source, err));
    return sort_names(source, err);
}

flatclip_status fc_weight_source_open(const char *path, fc_weight_source **source,
                                      flatclip_error *err)
{
    *source = NULL;
    fc_weight_source *built = calloc(1, sizeof *built);
    if (!built)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", path);
    const flatclip_status status = open_source(built, path, err);
    if (status == FLATCLIP_OK)
        *source = built;
    else
        fc_weight_source_close(built);
    return status;
}

void fc_weight_source_close(fc_weight_source *source)
{
    if (!source)
        return;
    if (source->close)
        source->close(source);
    free(source->by_name);
    free(source->path);
    free(source);
}
