/* The list of tensors that a CLIP model consists of, in the order of the file.
 *
 * Three short tables say it all: what comes before a tower's blocks, one block, what comes after.
 * A dimension in them is a letter that stands for a number of the configuration. */
#include "engine/base/clip_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* w: the tower's width, e: embed_dim, n: tokens, p: patch_size, c: context_length, v: vocab_size;
 * 3 is itself; Q is 3 w (query, key, value), F is 4 w (the MLP's middle). */
typedef struct {
    const char *name;
    const char *shape;
} entry;

static const entry VISION_FIRST[] = {
    { "visual.class_embedding", "w" },
    { "visual.positional_embedding", "nw" },
    { "visual.proj", "we" },
    { "visual.conv1.weight", "w3pp" },
    { "visual.ln_pre.weight", "w" },
    { "visual.ln_pre.bias", "w" },
};
static const entry VISION_LAST[] = {
    { "visual.ln_post.weight", "w" },
    { "visual.ln_post.bias", "w" },
};
static const entry TEXT_FIRST[] = {
    { "positional_embedding", "cw" },
    { "text_projection", "we" },
    { "logit_scale", "" },
    { "token_embedding.weight", "vw" },
};
static const entry TEXT_LAST[] = {
    { "ln_final.weight", "w" },
    { "ln_final.bias", "w" },
};
static const entry BLOCK[] = {
    { "attn.in_proj_weight", "Qw" },
    { "attn.in_proj_bias", "Q" },
    { "attn.out_proj.weight", "ww" },
    { "attn.out_proj.bias", "w" },
    { "ln_1.weight", "w" },
    { "ln_1.bias", "w" },
    { "mlp.c_fc.weight", "Fw" },
    { "mlp.c_fc.bias", "F" },
    { "mlp.c_proj.weight", "wF" },
    { "mlp.c_proj.bias", "w" },
    { "ln_2.weight", "w" },
    { "ln_2.bias", "w" },
};
#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

typedef struct {
    const entry *first, *last;
    int first_count, last_count;
    const char *prefix; /* of the blocks */
} tower_list;

static const tower_list VISION = { VISION_FIRST, VISION_LAST, COUNT(VISION_FIRST),
                                   COUNT(VISION_LAST), "visual." };
static const tower_list TEXT = { TEXT_FIRST, TEXT_LAST, COUNT(TEXT_FIRST), COUNT(TEXT_LAST), "" };

static int tower_count(const tower_list *list, int layers)
{
    return layers ? list->first_count + layers * COUNT(BLOCK) + list->last_count : 0;
}

int fc_clip_tensor_count(const fc_clip_config *config)
{
    return tower_count(&VISION, config->vision.layers) + tower_count(&TEXT, config->text.layers);
}

static uint64_t dimension(const fc_clip_config *config, int width, char letter)
{
    switch (letter) {
    case '3': return 3;
    case 'w': return (uint64_t)width;
    case 'Q': return 3 * (uint64_t)width;
    case 'F': return 4 * (uint64_t)width;
    case 'e': return (uint64_t)config->embed_dim;
    case 'n': return (uint64_t)fc_clip_tokens(config);
    case 'p': return (uint64_t)config->patch_size;
    case 'c': return (uint64_t)config->context_length;
    default: return (uint64_t)config->vocab_size; /* v */
    }
}

static void fill_spec(const fc_clip_config *config, const tower_list *list,
                      const fc_tower_config *tower, int index, fc_tensor_spec *spec)
{
    const int in_blocks = index - list->first_count;
    const int in_last = in_blocks - tower->layers * COUNT(BLOCK);
    const entry *found;
    if (in_blocks >= 0 && in_last < 0) {
        found = &BLOCK[in_blocks % COUNT(BLOCK)];
        snprintf(spec->name, sizeof spec->name, "%stransformer.resblocks.%d.%s", list->prefix,
                 in_blocks / COUNT(BLOCK), found->name);
    } else {
        found = in_blocks < 0 ? &list->first[index] : &list->last[in_last];
        snprintf(spec->name, sizeof spec->name, "%s", found->name);
    }
    spec->rank = (int)strlen(found->shape);
    spec->count = 1;
    for (int i = 0; i < 4; i++) {
        spec->dim[i] = i < spec->rank ? dimension(config, tower->width, found->shape[i]) : 0;
        spec->count *= i < spec->rank ? spec->dim[i] : 1;
    }
}

void fc_clip_tensor_spec(const fc_clip_config *config, int index, fc_tensor_spec *spec)
{
    const int vision_count = tower_count(&VISION, config->vision.layers);
    if (index < vision_count)
        fill_spec(config, &VISION, &config->vision, index, spec);
    else
        fill_spec(config, &TEXT, &config->text, index - vision_count, spec);
}

/* "[768, 512]" */
void fc_shape_format(const uint64_t *dim, int rank, char *out, size_t capacity)
{
    size_t used = (size_t)snprintf(out, capacity, "[");
    for (int i = 0; i < rank && used < capacity; i++)
        used += (size_t)snprintf(out + used, capacity - used, "%s%" PRIu64, i ? ", " : "", dim[i]);
    if (used < capacity)
        snprintf(out + used, capacity - used, "]");
}

static flatclip_status check_tensor(const char *path, const fc_tensor *tensor,
                                    const fc_tensor_spec *spec, flatclip_error *err)
{
    if (!tensor)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: tensor %s is missing", path, spec->name);
    if (tensor->rank != spec->rank ||
        memcmp(tensor->dim, spec->dim, (size_t)spec->rank * sizeof *spec->dim)) {
        char found[64], expected[64];
        fc_shape_format(tensor->dim, tensor->rank, found, sizeof found);
        fc_shape_format(spec->dim, spec->rank, expected, sizeof expected);
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.100s: tensor %s has shape %s, expected %s",
                       path, spec->name, found, expected);
    }
    if (tensor->dtype > FC_BF16)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: tensor %s is stored as %s, expected F32, F16 or BF16", path,
                       spec->name, fc_dtype_name(tensor->dtype));
    return FLATCLIP_OK;
}

/* Whether a tensor of this name belongs to the model. */
static int belongs(const fc_clip_config *config, const char *name)
{
    fc_tensor_spec spec;
    const int count = fc_clip_tensor_count(config);
    for (int i = 0; i < count; i++) {
        fc_clip_tensor_spec(config, i, &spec);
        if (!strcmp(spec.name, name))
            return 1;
    }
    return 0;
}

/* The merges are bytes, a list, and go with CLIP's vocabulary. merges may be NULL. */
static flatclip_status check_merges(const char *path, const fc_tensor *merges,
                                    const fc_clip_config *config, flatclip_error *err)
{
    if (!merges)
        return FLATCLIP_OK;
    if (config->vocab_size != FC_CLIP_VOCABULARY)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: tensor %s does not belong to a vocabulary of %d entries", path,
                       merges->name, config->vocab_size);
    if (merges->dtype != FC_U8 || merges->rank != 1 || merges->count > FC_MERGES_LIMIT)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: tensor %s is not a list of at most %d bytes", path, merges->name,
                       FC_MERGES_LIMIT);
    return FLATCLIP_OK;
}

flatclip_status fc_clip_check_tensors(const fc_safetensors *file, const fc_clip_config *config,
                                      flatclip_error *err)
{
    const char *path = fc_safetensors_path(file);
    const int count = fc_clip_tensor_count(config);
    fc_tensor_spec spec;
    for (int i = 0; i < count; i++) {
        fc_clip_tensor_spec(config, i, &spec);
        FC_TRY(check_tensor(path, fc_safetensors_find(file, spec.name), &spec, err));
    }
    const fc_tensor *merges = fc_safetensors_find(file, FC_MERGES_TENSOR);
    FC_TRY(check_merges(path, merges, config, err));
    /* Names are unique and all expected ones are there, so that any further one is extra; among
     * the first count + 2 there must be one, which bounds the search in a hostile file. */
    const size_t expected = (size_t)count + (merges != NULL);
    for (size_t i = 0; fc_safetensors_count(file) > expected; i++) {
        const fc_tensor *tensor = fc_safetensors_at(file, i);
        if (tensor != merges && !belongs(config, tensor->name))
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.150s: tensor %.80s does not belong to this model", path,
                           tensor->name);
    }
    return FLATCLIP_OK;
}
