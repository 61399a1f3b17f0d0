/* Seeing a public checkpoint as a CLIP model: layout by names, configuration by shapes. */
#include "weights_tools/clip_checkpoint.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_LIMIT = 257 }; /* one more than fc_clip_config_check allows: it will refuse it */

/* -- The layout ------------------------------------------------------------------------------ */

/* The name without the checkpoint's prefix; NULL if it has another. */
static const char *bare_name(const fc_clip_checkpoint *checkpoint, const char *name)
{
    const size_t prefix = strlen(checkpoint->prefix);
    return strncmp(name, checkpoint->prefix, prefix) ? NULL : name + prefix;
}

/* Finds the one image tower that we know by name, if there is any. */
static flatclip_status find_tower(fc_clip_checkpoint *checkpoint, const char **found,
                                  flatclip_error *err)
{
    const fc_weight_source *source = checkpoint->source;
    *found = NULL;
    for (size_t i = 0; i < source->count; i++) {
        const char *name = source->at(source, i)->name;
        size_t prefix_bytes = 0;
        if (!fc_tensor_name_tells_layout(name, &checkpoint->layout, &prefix_bytes))
            continue;
        if (*found)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.120s holds two image towers, %.60s and %.60s: keep the one that is "
                           "meant", source->path, *found, name);
        if (prefix_bytes >= sizeof checkpoint->prefix)
            return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.120s: tensor %.100s has a name too long",
                           source->path, name);
        *found = name;
        memcpy(checkpoint->prefix, name, prefix_bytes);
    }
    return FLATCLIP_OK;
}

/* Names the kinds of model that share some names with those that can be run. */
static flatclip_status refuse_foreign(const fc_clip_checkpoint *checkpoint, flatclip_error *err)
{
    const fc_weight_source *source = checkpoint->source;
    for (size_t i = 0; i < source->count; i++) {
        const char *name = source->at(source, i)->name;
        const char *bare = bare_name(checkpoint, name);
        const char *kind = bare ? fc_tensor_name_foreign(bare) : NULL;
        if (kind)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.120s holds %s (tensor %.60s), which cannot be run: only CLIP's "
                           "vision transformers can", source->path, kind, name);
    }
    return FLATCLIP_OK;
}

flatclip_status fc_clip_checkpoint_open(const fc_weight_source *source,
                                        fc_clip_checkpoint *checkpoint, flatclip_error *err)
{
    const char *found;
    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->source = source;
    FC_TRY(find_tower(checkpoint, &found, err));
    FC_TRY(refuse_foreign(checkpoint, err));
    if (!found)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.120s holds no CLIP image tower: there is neither visual.conv1.weight nor "
                       "vision_model.embeddings.patch_embedding.weight in it", source->path);
    checkpoint->used = calloc(source->count, 1);
    if (!checkpoint->used)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the tensors of %.200s",
                       source->path);
    return FLATCLIP_OK;
}

void fc_clip_checkpoint_close(fc_clip_checkpoint *checkpoint)
{
    free(checkpoint->used);
    checkpoint->used = NULL;
}

int fc_clip_checkpoint_parts(const fc_clip_checkpoint *checkpoint, const char *our_name,
                             const fc_tensor *part[3], int *transposed, char missing[160])
{
    const fc_weight_source *source = checkpoint->source;
    fc_tensor_origin origin;
    fc_tensor_origin_of(checkpoint->layout, checkpoint->prefix, our_name, &origin);
    *transposed = origin.transposed;
    for (int i = 0; i < origin.parts; i++) {
        const size_t index = fc_weight_source_find(source, origin.name[i]);
        if (index == source->count) {
            memcpy(missing, origin.name[i], sizeof origin.name[i]);
            return 0;
        }
        part[i] = source->at(source, index);
    }
    return origin.parts;
}

/* -- The configuration ----------------------------------------------------------------------- */

static int has_tensor(const fc_clip_checkpoint *checkpoint, const char *our_name)
{
    const fc_tensor *part[3];
    char missing[160];
    int transposed;
    return fc_clip_checkpoint_parts(checkpoint, our_name, part, &transposed, missing) > 0;
}

/* dim [rank] of one of our tensors, as ints; what is larger sticks at INT_MAX and is refused when
 * the configuration is checked. */
static flatclip_status get_shape(const fc_clip_checkpoint *checkpoint, const char *our_name,
                                 int rank, int *dim, flatclip_error *err)
{
    const fc_tensor *part[3];
    char missing[160];
    int transposed;
    if (!fc_clip_checkpoint_parts(checkpoint, our_name, part, &transposed, missing))
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.130s: tensor %.140s is missing",
                       checkpoint->source->path, missing);
    if (part[0]->rank != rank)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.130s: tensor %.80s has %d dimensions, expected %d",
                       checkpoint->source->path, part[0]->name, part[0]->rank, rank);
    for (int i = 0; i < rank; i++) {
        const uint64_t value = part[0]->dim[transposed ? rank - 1 - i : i];
        dim[i] = value > INT_MAX ? INT_MAX : (int)value;
    }
    return FLATCLIP_OK;
}

static int count_layers(const fc_clip_checkpoint *checkpoint, const char *prefix)
{
    int layers = 0;
    char name[80];
    do
        snprintf(name, sizeof name, "%stransformer.resblocks.%d.ln_1.weight", prefix, layers);
    while (has_tensor(checkpoint, name) && ++layers < LAYER_LIMIT);
    return layers;
}

static flatclip_status infer_vision(fc_clip_checkpoint *checkpoint, fc_clip_config *config,
                                    flatclip_error *err)
{
    int conv[4], position[2], proj[2];
    FC_TRY(get_shape(checkpoint, "visual.conv1.weight", 4, conv, err));
    FC_TRY(get_shape(checkpoint, "visual.positional_embedding", 2, position, err));
    FC_TRY(get_shape(checkpoint, "visual.proj", 2, proj, err));
    int grid = 0;
    while (grid < 4096 && (grid + 1) * (grid + 1) < position[0])
        grid++;
    if (grid * grid + 1 != position[0])
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.120s: the image tower has %d position embeddings, which is not one and "
                       "a square", checkpoint->source->path, position[0]);
    checkpoint->grid = grid;
    config->patch_size = conv[2];
    config->image_size = conv[2] < 4096 ? grid * conv[2] : INT_MAX;
    config->embed_dim = proj[1];
    config->vision.width = conv[0];
    config->vision.layers = count_layers(checkpoint, "visual.");
    config->vision.heads = conv[0] / FC_HEAD_DIM;
    return FLATCLIP_OK;
}

static flatclip_status infer_text(const fc_clip_checkpoint *checkpoint, fc_clip_config *config,
                                  flatclip_error *err)
{
    int token[2], position[2];
    FC_TRY(get_shape(checkpoint, "token_embedding.weight", 2, token, err));
    FC_TRY(get_shape(checkpoint, "positional_embedding", 2, position, err));
    config->context_length = position[0];
    config->vocab_size = token[0];
    config->text.width = token[1];
    config->text.layers = count_layers(checkpoint, "");
    config->text.heads = token[1] / FC_HEAD_DIM;
    if (!config->text.layers)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s holds token embeddings, but no layers of a text tower",
                       checkpoint->source->path);
    return FLATCLIP_OK;
}

flatclip_status fc_clip_checkpoint_infer(fc_clip_checkpoint *checkpoint,
                                         fc_clip_config *config, flatclip_error *err)
{
    config->text = (fc_tower_config){ 0, 0, 0 };
    config->context_length = config->vocab_size = 0;
    FC_TRY(infer_vision(checkpoint, config, err));
    if (has_tensor(checkpoint, "token_embedding.weight"))
        FC_TRY(infer_text(checkpoint, config, err));
    return FLATCLIP_OK;
}

/* -- The tensors ----------------------------------------------------------------------------- */

/* The shape that a part of spec must have in the checkpoint. */
static void expected_shape(const fc_clip_checkpoint *checkpoint, const fc_tensor_spec *spec,
                           int parts, int transposed, uint64_t dim[4])
{
    for (int i = 0; i < spec->rank; i++)
        dim[i] = spec->dim[transposed ? spec->rank - 1 - i : i];
    if (!strcmp(spec->name, "visual.positional_embedding")) /* may be resampled later */
        dim[0] = (uint64_t)checkpoint->grid * (uint64_t)checkpoint->grid + 1;
    if (spec->rank)
        dim[0] /= (uint64_t)parts;
}

static flatclip_status check_part(const fc_clip_checkpoint *checkpoint, const fc_tensor *part,
                                  const uint64_t *dim, int rank, flatclip_error *err)
{
    const char *path = checkpoint->source->path;
    /* logit_scale: some training scripts store it as a list of one. */
    const int scalar = rank == 0 && part->rank == 1 && part->count == 1;
    if (!scalar && (part->rank != rank || memcmp(part->dim, dim, (size_t)rank * sizeof *dim))) {
        char found[64], expected[64];
        fc_shape_format(part->dim, part->rank, found, sizeof found);
        fc_shape_format(dim, rank, expected, sizeof expected);
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.80s: tensor %.80s has shape %s, expected %s",
                       path, part->name, found, expected);
    }
    if (part->dtype > FC_F64)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.120s: tensor %.80s is stored as %s, expected a floating type", path,
                       part->name, fc_dtype_name(part->dtype));
    return FLATCLIP_OK;
}

static flatclip_status check_tensor(fc_clip_checkpoint *checkpoint, const fc_tensor_spec *spec,
                                    fc_dtype *stored, flatclip_error *err)
{
    const fc_weight_source *source = checkpoint->source;
    const fc_tensor *part[3];
    char missing[160];
    int transposed;
    uint64_t dim[4] = { 0 };
    const int parts = fc_clip_checkpoint_parts(checkpoint, spec->name, part, &transposed, missing);
    if (!parts)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.130s: tensor %.140s is missing", source->path,
                       missing);
    expected_shape(checkpoint, spec, parts, transposed, dim);
    *stored = part[0]->dtype;
    for (int i = 0; i < parts; i++) {
        FC_TRY(check_part(checkpoint, part[i], dim, spec->rank, err));
        if (part[i]->dtype != *stored || part[i]->dtype == FC_F64)
            *stored = FC_F32;
        checkpoint->used[fc_weight_source_find(source, part[i]->name)] = 1;
    }
    return FLATCLIP_OK;
}

/* Whether a tensor that the model is not made of may be left out. */
static int may_be_left_out(const fc_clip_checkpoint *checkpoint, const fc_clip_config *config,
                           const char *name)
{
    const char *bare = bare_name(checkpoint, name);
    if (!bare)
        return 0;
    return fc_tensor_name_is_ignorable(bare) ||
           (!config->text.layers && !strcmp(bare, "logit_scale"));
}

static flatclip_status check_unused(const fc_clip_checkpoint *checkpoint,
                                    const fc_clip_config *config, char *ignored, size_t capacity,
                                    flatclip_error *err)
{
    const fc_weight_source *source = checkpoint->source;
    const char *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < source->count; i++) {
        const char *name = source->at(source, i)->name;
        if (checkpoint->used[i] || !strcmp(name, FC_MERGES_TENSOR)) /* no weights, but not lost */
            continue;
        if (!may_be_left_out(checkpoint, config, name))
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.120s: tensor %.80s does not belong to a CLIP model that can be run",
                           source->path, name);
        first = first ? first : name;
        count++;
    }
    if (count > 1)
        snprintf(ignored, capacity, "%.80s and %zu more that hold no weights", first, count - 1);
    else
        snprintf(ignored, capacity, "%.80s", first ? first : "");
    return FLATCLIP_OK;
}

flatclip_status fc_clip_checkpoint_check(fc_clip_checkpoint *checkpoint,
                                         const fc_clip_config *config, fc_dtype *stored,
                                         char *ignored, size_t capacity, flatclip_error *err)
{
    const int count = fc_clip_tensor_count(config);
    for (int i = 0; i < count; i++) {
        fc_tensor_spec spec;
        fc_clip_tensor_spec(config, i, &spec);
        FC_TRY(check_tensor(checkpoint, &spec, &stored[i], err));
    }
    return check_unused(checkpoint, config, ignored, capacity, err);
}
