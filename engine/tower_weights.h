/* The weights of the image tower: one list for every backend and every purpose. */
#ifndef FC_TOWER_WEIGHTS_H
#define FC_TOWER_WEIGHTS_H

#include "engine/backend.h"

/* How a tensor lies in the file, and so what becomes of it. */
typedef enum {
    FC_WEIGHT_VECTOR,       /* [count]: float32 everywhere */
    FC_WEIGHT_OUT_BY_IN,    /* [out, in], as torch.nn.Linear */
    FC_WEIGHT_IN_BY_OUT     /* [in, out], as CLIP's projections */
} fc_weight_form;

typedef struct {
    const char *tensor;     /* its name in the file; valid during the call */
    fc_weight_form form;
    int in, out;            /* in is 1 for a vector */
} fc_weight;

/* Receives one weight and where it lies now; returns where it lies from now on. */
typedef void *fc_weight_visit(void *context, const fc_weight *weight, void *at);

/* Sets the tower's dimensions and the shape of every linear layer; nothing lies anywhere yet. */
void fc_tower_set_shapes(fc_tower *tower, const fc_clip_config *config);

/* Visits every weight, always in the same order; then q and kv are parts of qkv where the weights
 * are placed as [out, in] with numbers of number_bytes, or in panels whose width divides width. */
void fc_tower_each_weight(fc_tower *tower, size_t number_bytes, fc_weight_visit *visit,
                          void *context);

#endif
