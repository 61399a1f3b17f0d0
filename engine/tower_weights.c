/* Shapes and names of the image tower's weights. Measuring, placing and filling all walk this one
 * list, so that they cannot disagree. */
#include "engine/tower_weights.h"

#include <stdio.h>

typedef struct {
    fc_weight_visit *visit;
    void *context;
    char prefix[64];
} visitor;

static void *one(const visitor *v, const char *suffix, fc_weight_form form, int in, int out,
                 void *at)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", v->prefix, suffix);
    const fc_weight weight = { name, form, in, out };
    return v->visit(v->context, &weight, at);
}

static void norm(const visitor *v, const char *name, int width, fc_norm *w)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "%s.weight", name);
    w->gain = one(v, suffix, FC_WEIGHT_VECTOR, 1, width, w->gain);
    snprintf(suffix, sizeof suffix, "%s.bias", name);
    w->bias = one(v, suffix, FC_WEIGHT_VECTOR, 1, width, w->bias);
}

static void linear(const visitor *v, const char *weight, const char *bias, fc_weight_form form,
                   fc_linear *w)
{
    w->weight = one(v, weight, form, w->in, w->out, w->weight);
    if (bias)
        w->bias = one(v, bias, FC_WEIGHT_VECTOR, 1, w->out, w->bias);
}

/* in_proj is one layer for all blocks but the last, which wants its query part and the rest apart.
 * Widths are multiples of 64, so both start at a panel. */
static void split_in_proj(fc_block *w, size_t width, size_t number_bytes)
{
    w->q = w->qkv;
    w->q.out = (int)width;
    w->kv = w->qkv;
    w->kv.out = 2 * (int)width;
    if (w->qkv.weight) {
        w->kv.weight = (char *)w->qkv.weight + width * width * number_bytes;
        w->kv.bias = w->qkv.bias + width;
    }
}

void fc_tower_each_weight(fc_tower *tower, size_t number_bytes, fc_weight_visit *visit,
                          void *context)
{
    visitor v = { visit, context, "visual." };
    const int width = tower->width;

    linear(&v, "conv1.weight", NULL, FC_WEIGHT_OUT_BY_IN, &tower->patch);
    tower->class_token = one(&v, "class_embedding", FC_WEIGHT_VECTOR, 1, width, tower->class_token);
    tower->position = one(&v, "positional_embedding", FC_WEIGHT_VECTOR, 1, tower->seq * width,
                          tower->position);
    norm(&v, "ln_pre", width, &tower->ln_pre);
    for (int i = 0; i < tower->layers; i++) {
        fc_block *w = &tower->block[i];
        snprintf(v.prefix, sizeof v.prefix, "visual.transformer.resblocks.%d.", i);
        norm(&v, "ln_1", width, &w->ln_1);
        linear(&v, "attn.in_proj_weight", "attn.in_proj_bias", FC_WEIGHT_OUT_BY_IN, &w->qkv);
        linear(&v, "attn.out_proj.weight", "attn.out_proj.bias", FC_WEIGHT_OUT_BY_IN, &w->out);
        norm(&v, "ln_2", width, &w->ln_2);
        linear(&v, "mlp.c_fc.weight", "mlp.c_fc.bias", FC_WEIGHT_OUT_BY_IN, &w->fc1);
        linear(&v, "mlp.c_proj.weight", "mlp.c_proj.bias", FC_WEIGHT_OUT_BY_IN, &w->fc2);
        split_in_proj(w, (size_t)width, number_bytes);
    }
    snprintf(v.prefix, sizeof v.prefix, "visual.");
    norm(&v, "ln_post", width, &tower->ln_post);
    linear(&v, "proj", NULL, FC_WEIGHT_IN_BY_OUT, &tower->proj);
}

static void set_linear(fc_linear *w, int in, int out)
{
    *w = (fc_linear){ NULL, NULL, in, out };
}

void fc_tower_set_shapes(fc_tower *tower, const fc_clip_config *config)
{
    const int width = config->vision.width;

    tower->image_size = config->image_size;
    tower->patch_size = config->patch_size;
    tower->seq = fc_clip_tokens(config);
    tower->width = width;
    tower->layers = config->vision.layers;
    tower->heads = config->vision.heads;
    tower->embed = config->embed_dim;
    tower->activation = config->activation == FLATCLIP_ACTIVATION_GELU ? FC_BIAS_GELU
                                                                      : FC_BIAS_QUICK_GELU;
    tower->scale = 0.125f; /* 1 / sqrt(FC_HEAD_DIM), exactly */
    for (int c = 0; c < 3; c++)
        for (int byte = 0; byte < 256; byte++) /* in torchvision's order of float32 operations */
            tower->pixel[c][byte] = ((float)byte / 255.0f - config->mean[c]) / config->std[c];

    set_linear(&tower->patch, 3 * tower->patch_size * tower->patch_size, width);
    set_linear(&tower->patch_bytes, 3 * tower->patch_size * tower->patch_size, width);
    set_linear(&tower->proj, width, tower->embed);
    for (int i = 0; i < tower->layers; i++) {
        fc_block *w = &tower->block[i];
        set_linear(&w->qkv, width, 3 * width);
        set_linear(&w->out, width, width);
        set_linear(&w->fc1, width, 4 * width);
        set_linear(&w->fc2, 4 * width, width);
    }
}
