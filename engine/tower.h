/* The forward pass. */
#ifndef FC_TOWER_H
#define FC_TOWER_H

#include "engine/backend.h"

/* Queues the image tower: pixels -> ws->embed [batch, embed], as the projection leaves them. pixels
 * must stay until fc_backend_finish. Cannot fail here. */
void fc_run_image_tower(fc_backend *be, const fc_tower *tower, const fc_workspace *ws,
                        const void *pixels, fc_pixel_type type, int batch);

#endif
