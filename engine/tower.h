/* The forward pass. */
#ifndef FC_TOWER_H
#define FC_TOWER_H

#include "engine/backend.h"

/* The image tower: pixels -> ws->embed [batch, embed], with normalize of length 1. Where operations
 * are queued, pixels must stay until they are done. */
void fc_run_image_tower(fc_backend *be, const fc_tower *tower, const fc_workspace *ws,
                        const void *pixels, fc_pixel_type type, int batch, int normalize);

/* The same from the residual stream on: all that follows fc_patch_embed. */
void fc_run_image_blocks(fc_backend *be, const fc_tower *tower, const fc_workspace *ws, int batch,
                         int normalize);

#endif
