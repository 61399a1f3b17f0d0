/* Pixels of every kind to the bands that are resized, and those bands to RGB: with Pillow's own
 * rounding in every conversion. */
#ifndef FC_COLOUR_H
#define FC_COLOUR_H

#include "engine/image/picture.h"

#include <stddef.h>

/* Rewrites count pixels of a row. palette is for FC_PIXEL_INDEX. in and out do not overlap. */
typedef void fc_convert_fn(uint8_t *out, const uint8_t *in, size_t count,
                           const uint8_t (*palette)[3]);

/* Writes count RGB pixels, the first to out and each next one `step` bytes further. */
typedef void fc_finish_fn(uint8_t *out, size_t step, const uint8_t *in, size_t count);

typedef struct {
    int source_bands;       /* bytes of a pixel as decoded */
    int bands;              /* bytes of a pixel while it is resized: 1, 3 or 4 */
    fc_convert_fn *convert; /* NULL where the decoded row can be resized as it is */
    fc_finish_fn *finish;
} fc_colour_path;

/* The conversions for a kind of pixel. rgb_first: to RGB before resizing (the hf recipe, and every
 * picture that is not resized at all, since alpha then has nothing to weigh). */
fc_colour_path fc_colour_path_for(fc_pixel_kind kind, int rgb_first);

#endif
