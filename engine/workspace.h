/* Every activation buffer, with its shape, in one function. */
#ifndef FC_WORKSPACE_H
#define FC_WORKSPACE_H

#include "engine/backend.h"

/* What differs between backends. */
typedef struct {
    size_t number_bytes;    /* of what goes into matrix products; sums and residuals are float32 */
    int has_patches;        /* whether patches are cut out before they are multiplied */
} fc_workspace_form;

/* Measures or places the buffers for batch images. */
void fc_workspace_layout(fc_workspace *ws, fc_arena *arena, const fc_tower *tower,
                         const fc_workspace_form *form, int batch);

#endif
