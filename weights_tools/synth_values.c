/* The numbers of synthetic weights, and the shapes that have a name.
 *
 * Element i of a tensor is made from the tensor's name, the seed and i alone:
 *
 *     state = fnv1a64(name) ^ (seed * GOLDEN)
 *     hash  = mix(state + (i + 1) * GOLDEN)              the mixer of splitmix64
 *     z     = 2 * (sum of the hash's four 16-bit quarters) - 4 * 65535
 *     value = half(mean + (float)z * (float)(std / SIGMA))
 *
 * The sum of four uniform numbers is near-normal and needs no math library; the float product and
 * sum are rounded one by one (build with -ffp-contract=off); every value is exact in F16. A few
 * channels of the residual stream get large values, as trained CLIP models have. */
#include "weights_tools/synth.h"

#include <math.h>
#include <string.h>

#include "engine/base/half.h"

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15;
enum { BLOCK_VALUES = 8 << 10 };

/* -- Shapes ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int image_size, patch_size, vision_width, vision_layers, embed_dim;
    int vocab_size, text_width, text_layers;
} SHAPES[] = {
    { "vitb32", 224, 32, 768, 12, 512, 49408, 512, 12 },
    { "tiny", 224, 32, 128, 2, 64, 49408, 64, 2 },
    { "tiny-b16", 224, 16, 128, 2, 64, 49408, 64, 2 },
    { "tiny-l14-336", 336, 14, 128, 2, 64, 49408, 64, 2 },
    { "micro", 224, 32, 64, 1, 32, 1000, 64, 1 },
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

flatclip_status fc_synth_config(const char *name, fc_clip_config *config, flatclip_error *err)
{
    int i = 0;
    while (i < SHAPE_COUNT && strcmp(name, SHAPES[i].name))
        i++;
    if (i == SHAPE_COUNT)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "no synthetic model is called %.60s: choose vitb32, tiny, tiny-b16, "
                       "tiny-l14-336 or micro", name);
    memset(config, 0, sizeof *config);
    config->image_size = SHAPES[i].image_size;
    config->patch_size = SHAPES[i].patch_size;
    config->embed_dim = SHAPES[i].embed_dim;
    config->vision = (fc_tower_config){ SHAPES[i].vision_width, SHAPES[i].vision_layers,
                                        SHAPES[i].vision_width / FC_HEAD_DIM };
    config->text = (fc_tower_config){ SHAPES[i].text_width, SHAPES[i].text_layers,
                                      SHAPES[i].text_width / FC_HEAD_DIM };
    config->context_length = 77;
    config->vocab_size = SHAPES[i].vocab_size;
    config->activation = FLATCLIP_ACTIVATION_QUICKGELU;
    config->recipe = FLATCLIP_RECIPE_OPENAI;
    fc_clip_default_normalisation(config);
    return FLATCLIP_OK;
}

/* -- Values ---------------------------------------------------------------------------------- */

/* std is factor, or factor / sqrt(fan) where fan is the product of dimensions first to last. */
static const struct {
    const char *tail; /* of the tensor's name */
    double mean, factor;
    int first, last;  /* first > last: no fan */
} DISTRIBUTIONS[] = {
    { "attn.in_proj_weight", 0, 1.5, 1, 1 },
    { "attn.in_proj_bias", 0, 0.1, 1, 0 },
    { "attn.out_proj.weight", 0, 1, 1, 1 },
    { "attn.out_proj.bias", 0, 0.02, 1, 0 },
    { "mlp.c_fc.weight", 0, 1, 1, 1 },
    { "mlp.c_fc.bias", 0, 0.1, 1, 0 },
    { "mlp.c_proj.weight", 0, 0.5, 0, 0 },
    { "mlp.c_proj.bias", 0, 0.02, 1, 0 },
    { "class_embedding", 0, 0.5, 1, 0 },
    { "positional_embedding", 0, 0.3, 1, 0 },
    { "visual.proj", 0, 1, 0, 0 },
    { "conv1.weight", 0, 1, 1, 3 },
    { "text_projection", 0, 1, 0, 0 },
    { "logit_scale", 4.6, 0, 1, 0 },
    { "token_embedding.weight", 0, 0.5, 1, 0 },
    { ".weight", 1, 0.1, 1, 0 }, /* what is left are the LayerNorms */
    { ".bias", 0, 0.1, 1, 0 },
};
enum { DISTRIBUTION_COUNT = sizeof DISTRIBUTIONS / sizeof *DISTRIBUTIONS };

static int ends_with(const char *text, const char *tail)
{
    const size_t length = strlen(text), tail_length = strlen(tail);
    return length >= tail_length && !strcmp(text + length - tail_length, tail);
}

/* Fills *mean and *step, the float that one unit of z is worth. */
static void distribution(const fc_tensor_spec *spec, float *mean, float *step)
{
    /* The standard deviation of z. */
    const double sigma = 2.0 * sqrt(4.0 * (65536.0 * 65536.0 - 1.0) / 12.0);
    int i = 0;
    while (i + 1 < DISTRIBUTION_COUNT && !ends_with(spec->name, DISTRIBUTIONS[i].tail))
        i++;
    double fan = 1;
    for (int axis = DISTRIBUTIONS[i].first; axis <= DISTRIBUTIONS[i].last; axis++)
        fan *= (double)spec->dim[axis];
    const double std = DISTRIBUTIONS[i].factor * (1.0 / sqrt(fan));
    *mean = (float)DISTRIBUTIONS[i].mean;
    *step = (float)(std / sigma);
}

static const struct {
    const char *name;
    uint64_t index;
    float value;
} OUTLIERS[] = {
    { "visual.ln_pre.bias", 92, 12.0f },
    { "visual.ln_pre.bias", 33, -9.0f },
    { "visual.transformer.resblocks.1.mlp.c_proj.bias", 92, 20.0f },
    { "transformer.resblocks.0.mlp.c_proj.bias", 33, 15.0f },
};
enum { OUTLIER_COUNT = sizeof OUTLIERS / sizeof *OUTLIERS };

static void plant_outliers(const char *name, uint64_t first, size_t count, float *values)
{
    for (int i = 0; i < OUTLIER_COUNT; i++) {
        const uint64_t index = OUTLIERS[i].index;
        if (!strcmp(name, OUTLIERS[i].name) && index >= first && index - first < count)
            values[index - first] = OUTLIERS[i].value;
    }
}

static uint64_t fnv1a64(const char *name)
{
    uint64_t hash = 0xCBF29CE484222325;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3;
    return hash;
}

static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

/* Elements first to first + count - 1 of a tensor whose state is given. */
static void draw(uint64_t state, uint64_t first, size_t count, float mean, float step,
                 float *values)
{
    uint16_t halves[BLOCK_VALUES];
    for (size_t i = 0; i < count; i++) {
        const uint64_t hash = mix(state + (first + i + 1) * GOLDEN);
        const int32_t sum = (int32_t)((hash & 0xffff) + (hash >> 16 & 0xffff) +
                                      (hash >> 32 & 0xffff) + (hash >> 48));
        const float scaled = (float)(2 * sum - 4 * 65535) * step;
        values[i] = mean + scaled;
    }
    fc_floats_to_halves(values, count, halves);
    fc_halves_to_floats(halves, count, values);
}

void fc_synth_values(const fc_tensor_spec *spec, uint64_t seed, uint64_t first, size_t count,
                     float *values)
{
    const uint64_t state = fnv1a64(spec->name) ^ seed * GOLDEN;
    float mean, step;
    distribution(spec, &mean, &step);
    for (size_t done = 0; done < count; done += BLOCK_VALUES) {
        const size_t some = count - done < BLOCK_VALUES ? count - done : BLOCK_VALUES;
        draw(state, first + done, some, mean, step, values + done);
    }
    plant_outliers(spec->name, first, count, values);
}
