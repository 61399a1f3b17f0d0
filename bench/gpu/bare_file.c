/* Stands for the reader of model files where its JSON library is missing: a path's last part names
 * a synthetic model, "tiny" or "tiny.safetensors", whose numbers are made when they are read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clip_config.h"
#include "weights_tools/synth.h"

enum { SEED = 1, MOST_TENSORS = 512, MOST_KEYS = 32 };

struct fc_safetensors {
    char path[64];
    size_t tensors, keys;
    fc_tensor_spec spec[MOST_TENSORS];
    fc_tensor tensor[MOST_TENSORS];
    char key[MOST_KEYS][32], value[MOST_KEYS][200];
};

static void keep_metadata(void *user, const char *key, const char *value)
{
    fc_safetensors *file = user;
    if (file->keys == MOST_KEYS)
        return;
    snprintf(file->key[file->keys], sizeof file->key[0], "%s", key);
    snprintf(file->value[file->keys++], sizeof file->value[0], "%s", value);
}

static void list_tensors(fc_safetensors *file, const fc_clip_config *config)
{
    file->tensors = (size_t)fc_clip_tensor_count(config);
    for (size_t i = 0; i < file->tensors; i++) {
        fc_tensor_spec *spec = &file->spec[i];
        fc_clip_tensor_spec(config, (int)i, spec);
        file->tensor[i] = (fc_tensor){ .name = spec->name, .dtype = FC_F32, .rank = spec->rank,
                                       .count = spec->count, .bytes = 4 * spec->count };
        memcpy(file->tensor[i].dim, spec->dim, sizeof spec->dim);
    }
}

flatclip_status fc_safetensors_open(const char *path, fc_safetensors **file, flatclip_error *err)
{
    fc_clip_config config;
    fc_safetensors *f = calloc(1, sizeof *f);
    *file = NULL;
    if (!f)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a list of tensors");
    const char *slash = strrchr(path, '/');
    snprintf(f->path, sizeof f->path, "%s", slash ? slash + 1 : path);
    f->path[strcspn(f->path, ".")] = '\0';
    const flatclip_status status = fc_synth_config(f->path, &config, err);
    if (status != FLATCLIP_OK) {
        free(f);
        return status;
    }
    fc_clip_config_write(&config, keep_metadata, f);
    list_tensors(f, &config);
    *file = f;
    return FLATCLIP_OK;
}

void fc_safetensors_close(fc_safetensors *file)
{
    free(file);
}

const char *fc_safetensors_path(const fc_safetensors *file)
{
    return file->path;
}

size_t fc_safetensors_count(const fc_safetensors *file)
{
    return file->tensors;
}

const fc_tensor *fc_safetensors_at(const fc_safetensors *file, size_t index)
{
    return &file->tensor[index];
}

const fc_tensor *fc_safetensors_find(const fc_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->tensors; i++)
        if (!strcmp(file->tensor[i].name, name))
            return &file->tensor[i];
    return NULL;
}

const char *fc_safetensors_metadata(const fc_safetensors *file, const char *key)
{
    for (size_t i = 0; i < file->keys; i++)
        if (!strcmp(file->key[i], key))
            return file->value[i];
    return NULL;
}

flatclip_status fc_safetensors_read_f32(const fc_safetensors *file, const fc_tensor *tensor,
                                        uint64_t first, uint64_t count, float *out,
                                        flatclip_error *err)
{
    (void)err;
    fc_synth_values(&file->spec[tensor - file->tensor], SEED, first, (size_t)count, out);
    return FLATCLIP_OK;
}

flatclip_status fc_safetensors_read_bytes(const fc_safetensors *file, const fc_tensor *tensor,
                                          uint64_t first, uint64_t count, void *out,
                                          flatclip_error *err)
{
    (void)first, (void)count, (void)out;
    return fc_fail(err, FLATCLIP_ERR_FORMAT, "%s: %s is not among synthetic weights", file->path,
                   tensor->name);
}

const char *fc_dtype_name(fc_dtype dtype)
{
    (void)dtype;
    return "F32"; /* all of them */
}
