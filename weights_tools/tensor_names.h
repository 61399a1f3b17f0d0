/* What public checkpoints call the tensors that we name as OpenAI's state dict does. */
#ifndef FC_TENSOR_NAMES_H
#define FC_TENSOR_NAMES_H

#include <stddef.h>

typedef enum {
    FC_LAYOUT_OPENAI, /* OpenAI's state dict and open_clip */
    FC_LAYOUT_HF      /* Hugging Face transformers, CLIPModel */
} fc_layout;

/* How one of our tensors is made of tensors of a checkpoint: one, or three (query, key, value)
 * stacked along the first dimension; transposed: the checkpoint has it the other way round. */
typedef struct {
    char name[3][160];
    int parts;
    int transposed;
} fc_tensor_origin;

/* prefix stands before every name of the checkpoint ("module." or ""), at most 64 bytes. */
void fc_tensor_origin_of(fc_layout layout, const char *prefix, const char *our_name,
                         fc_tensor_origin *origin);

/* The tensor that tells a layout: if name ends with its patch embedding, returns 1, fills *layout
 * and the length of what stands before it. */
int fc_tensor_name_tells_layout(const char *name, fc_layout *layout, size_t *prefix_bytes);

/* Whether a tensor (its name without prefix) holds no weights and may be left out: position ids,
 * masks, numbers that the shapes tell as well. */
int fc_tensor_name_is_ignorable(const char *name);

/* What a name (without prefix) betrays of a model that cannot be run: "a ResNet image tower"; NULL
 * if nothing. */
const char *fc_tensor_name_foreign(const char *name);

#endif
