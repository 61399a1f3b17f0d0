/* Every activation buffer, with its shape, in one function. */
#ifndef FC_WORKSPACE_H
#define FC_WORKSPACE_H

#include "engine/backend.h"

/* Measures or places the buffers for batch images. */
void fc_workspace_layout(fc_workspace *ws, fc_arena *arena, const fc_tower *tower, int batch);

#endif
