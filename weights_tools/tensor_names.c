/* The names of tensors in public checkpoints. Everything known about them is in these tables. */
#include "weights_tools/tensor_names.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *ours, *theirs;
} alias;

/* Outside the blocks: beginnings of names, so that .weight and .bias need one line. */
static const alias HF_ENDS[] = {
    { "visual.class_embedding", "vision_model.embeddings.class_embedding" },
    { "visual.positional_embedding", "vision_model.embeddings.position_embedding.weight" },
    { "visual.proj", "visual_projection.weight" },
    { "visual.conv1", "vision_model.embeddings.patch_embedding" },
    { "visual.ln_pre", "vision_model.pre_layrnorm" }, /* their spelling */
    { "visual.ln_post", "vision_model.post_layernorm" },
    { "positional_embedding", "text_model.embeddings.position_embedding.weight" },
    { "text_projection", "text_projection.weight" },
    { "token_embedding", "text_model.embeddings.token_embedding" },
    { "ln_final", "text_model.final_layer_norm" },
};

static const alias HF_TOWERS[] = {
    { "visual.transformer.resblocks.", "vision_model.encoder.layers." },
    { "transformer.resblocks.", "text_model.encoder.layers." },
};

static const alias HF_BLOCK[] = {
    { "attn.out_proj", "self_attn.out_proj" },
    { "ln_1", "layer_norm1" },
    { "ln_2", "layer_norm2" },
    { "mlp.c_fc", "mlp.fc1" },
    { "mlp.c_proj", "mlp.fc2" },
};

/* The line of the table whose beginning name has, or NULL. */
static const alias *find(const alias *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strncmp(name, table[i].ours, strlen(table[i].ours)))
            return &table[i];
    return NULL;
}
#define FIND(table, name) find(table, sizeof(table) / sizeof *(table), name)

/* tail is what follows "...resblocks."; tower their name for that. */
static void hf_block_origin(const char *prefix, const char *tower, const char *tail,
                            fc_tensor_origin *origin)
{
    static const char part[3] = { 'q', 'k', 'v' };
    const int number = (int)strcspn(tail, "."); /* digits of the block's number */
    const char *inside = tail + number + 1;
    const char *fused = "attn.in_proj_";
    if (!strncmp(inside, fused, strlen(fused))) {
        origin->parts = 3;
        for (int i = 0; i < 3; i++)
            snprintf(origin->name[i], sizeof *origin->name, "%.64s%s%.*s.self_attn.%c_proj.%.16s",
                     prefix, tower, number, tail, part[i], inside + strlen(fused));
        return;
    }
    const alias *line = FIND(HF_BLOCK, inside);
    snprintf(origin->name[0], sizeof *origin->name, "%.64s%s%.*s.%s%.16s", prefix, tower, number,
             tail, line ? line->theirs : "", inside + (line ? strlen(line->ours) : 0));
}

void fc_tensor_origin_of(fc_layout layout, const char *prefix, const char *our_name,
                         fc_tensor_origin *origin)
{
    memset(origin, 0, sizeof *origin);
    origin->parts = 1;
    const alias *tower = layout == FC_LAYOUT_HF ? FIND(HF_TOWERS, our_name) : NULL;
    const alias *end = layout == FC_LAYOUT_HF ? FIND(HF_ENDS, our_name) : NULL;
    if (tower) {
        hf_block_origin(prefix, tower->theirs, our_name + strlen(tower->ours), origin);
        return;
    }
    snprintf(origin->name[0], sizeof *origin->name, "%.64s%s%.80s", prefix,
             end ? end->theirs : "", our_name + (end ? strlen(end->ours) : 0));
    origin->transposed = end && (!strcmp(our_name, "visual.proj") ||
                                 !strcmp(our_name, "text_projection"));
}

static int ends_with(const char *text, const char *tail)
{
    const size_t length = strlen(text), tail_length = strlen(tail);
    return length >= tail_length && !strcmp(text + length - tail_length, tail);
}

int fc_tensor_name_tells_layout(const char *name, fc_layout *layout, size_t *prefix_bytes)
{
    static const char *const anchors[] = {
        [FC_LAYOUT_OPENAI] = "visual.conv1.weight",
        [FC_LAYOUT_HF] = "vision_model.embeddings.patch_embedding.weight",
    };
    for (int i = 0; i < 2; i++) {
        if (!ends_with(name, anchors[i]))
            continue;
        const size_t before = strlen(name) - strlen(anchors[i]);
        if (before && name[before - 1] != '.')
            continue;
        *layout = (fc_layout)i;
        *prefix_bytes = before;
        return 1;
    }
    return 0;
}

int fc_tensor_name_is_ignorable(const char *name)
{
    static const char *const ignorable[] = { "position_ids", "attn_mask", "input_resolution",
                                             "context_length", "vocab_size" };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof ignorable / sizeof *ignorable; i++)
        if (!strcmp(dot ? dot + 1 : name, ignorable[i]))
            return 1;
    return 0;
}

const char *fc_tensor_name_foreign(const char *name)
{
    static const alias signs[] = {
        { "visual.layer1.", "a ResNet image tower" },
        { "visual.attnpool.", "a ResNet image tower" },
        { "visual.trunk.", "a timm image tower" },
        { "visual.blocks.", "an EVA image tower" },
        { "visual.attn_pool.", "an attentional pooler (CoCa)" },
        { "text_decoder.", "a text decoder (CoCa)" },
        { "logit_bias", "a SigLIP model" },
        { "vision_model.head.", "a SigLIP model" },
        { "text.", "a text tower of its own kind (open_clip's CustomTextCLIP)" },
    };
    const alias *sign = FIND(signs, name);
    return sign ? sign->theirs : NULL;
}
