/* Finding the weights of a checkpoint and opening them. One kind is read: .safetensors. */
#define _GNU_SOURCE
#include "weights_tools/weight_source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- .safetensors ---------------------------------------------------------------------------- */

static const fc_tensor *safetensors_at(const fc_weight_source *source, size_t index)
{
    return fc_safetensors_at(source->state, index);
}

static flatclip_status safetensors_read(const fc_weight_source *source, const fc_tensor *tensor,
                                        uint64_t first, uint64_t count, float *out,
                                        flatclip_error *err)
{
    return fc_safetensors_read_f32(source->state, tensor, first, count, out, err);
}

static int safetensors_own_config(const fc_weight_source *source, fc_clip_config *config)
{
    return fc_clip_config_read(source->state, config, NULL) == FLATCLIP_OK;
}

static void safetensors_close(fc_weight_source *source)
{
    fc_safetensors_close(source->state);
}

static flatclip_status open_safetensors(fc_weight_source *source, flatclip_error *err)
{
    fc_safetensors *file;
    FC_TRY(fc_safetensors_open(source->path, &file, err));
    source->state = file;
    source->count = fc_safetensors_count(file);
    source->at = safetensors_at;
    source->read = safetensors_read;
    source->own_config = safetensors_own_config;
    source->close = safetensors_close;
    return FLATCLIP_OK;
}

/* -- Finding --------------------------------------------------------------------------------- */

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
    static const char *const usual[] = { "model.safetensors", "open_clip_model.safetensors" };
    static const char *const unread[] = { "model.safetensors.index.json", "pytorch_model.bin",
                                          "open_clip_pytorch_model.bin" };
    struct stat info;
    *found = NULL;
    if (stat(path, &info))
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        *found = strdup(path);
    } else {
        size_t i = 0;
        while (i < sizeof usual / sizeof *usual && !is_file(path, usual[i]))
            i++;
        for (size_t k = 0; i == sizeof usual / sizeof *usual && k < 3; k++)
            if (is_file(path, unread[k]))
                return fc_fail(err, FLATCLIP_ERR_FORMAT,
                               "folder %.120s holds its weights as %s, which is not read here: "
                               "get model.safetensors or open_clip_model.safetensors of the same "
                               "model", path, unread[k]);
        if (i == sizeof usual / sizeof *usual)
            return fc_fail(err, FLATCLIP_ERR_IO,
                           "folder %.150s holds neither model.safetensors nor "
                           "open_clip_model.safetensors", path);
        if (asprintf(found, "%s/%s", path, usual[i]) < 0)
            *found = NULL;
    }
    return *found ? FLATCLIP_OK
                  : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", path);
}

/* Names the public kinds of checkpoint that are not read; anything else is left to the reader. */
static flatclip_status refuse_other_kinds(const char *path, flatclip_error *err)
{
    unsigned char head[4] = { 0 };
    FILE *file = fopen(path, "rb");
    if (!file)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", path, strerror(errno));
    const size_t got = fread(head, 1, sizeof head, file);
    fclose(file);
    const char *kind = got < 2 ? NULL
                     : !memcmp(head, "PK", 2) ? "a zip archive, as torch.save and TorchScript write"
                     : head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 ? "a Python pickle" : NULL;
    if (!kind)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.120s is %s; only .safetensors checkpoints are read here: get the "
                   ".safetensors file of the same model", path, kind);
}

flatclip_status fc_weight_source_open(const char *path, fc_weight_source **source,
                                      flatclip_error *err)
{
    *source = NULL;
    fc_weight_source *built = calloc(1, sizeof *built);
    if (!built)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", path);
    flatclip_status status = locate(path, &built->path, err);
    if (status == FLATCLIP_OK)
        status = refuse_other_kinds(built->path, err);
    if (status == FLATCLIP_OK)
        status = open_safetensors(built, err);
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
    free(source->path);
    free(source);
}

size_t fc_weight_source_find(const fc_weight_source *source, const char *name)
{
    size_t i = 0;
    while (i < source->count && strcmp(source->at(source, i)->name, name))
        i++;
    return i;
}
