/* How much arithmetic a forward pass is, from what the model says of itself: the same on every
 * device. */
#ifndef SPEED_WORK_H
#define SPEED_WORK_H

#include "flatclip.h"

/* The parts of a forward pass that are timed apart. */
typedef enum {
    SPEED_PATCH_EMBED, /* with class token, positions and ln_pre */
    SPEED_LAYERNORM,
    SPEED_QKV,
    SPEED_ATTENTION,
    SPEED_OUT_PROJECTION,
    SPEED_MLP,         /* both layers, with the activation */
    SPEED_HEAD,        /* ln_post, projection, length 1 */
    SPEED_REST,        /* what is between the operations */
    SPEED_STAGES
} speed_stage;

const char *speed_stage_name(speed_stage stage); /* "patch embed" */

/* Floating-point operations of a stage for batch images; those of matrix products only, so 0 for
 * LayerNorm and the rest. The last block's are for one row an image where that is all that is
 * computed (engine/tower.c). */
double speed_stage_flop(const flatclip_model_info *info, speed_stage stage, int batch);

/* The sum over all stages. */
double speed_forward_flop(const flatclip_model_info *info, int batch);

#endif
