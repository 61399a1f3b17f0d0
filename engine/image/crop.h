/* The geometry of both recipes: shorter side to `size`, then the square in the middle. */
#ifndef FC_CROP_H
#define FC_CROP_H

#include "engine/image/preprocess.h"

/* Shorter sides beyond this are refused: such a picture has over four thousand million pixels,
 * and the room for its weights must be set aside beforehand. */
#define FC_MAX_SHORT_SIDE 65535

typedef struct {
    fc_axis horizontal, vertical; /* of the upright picture */
    int is_resized; /* 0: the shorter side is right already, and only the crop remains */
} fc_crop;

/* width and height are at least 1. */
fc_crop fc_crop_for(const fc_preprocess_options *options, int32_t width, int32_t height);

/* Refuses a picture that has more pixels than max_pixels. Errors: TOO_LARGE (says both). */
flatclip_status fc_check_size(const fc_preprocess_options *options, uint64_t width, uint64_t height,
                              flatclip_error *err);

/* The longest shorter side that the pixel limit lets through, and the scale by which it shrinks. */
int32_t fc_longest_short_side(const fc_preprocess_options *options);
double fc_strongest_scale(const fc_preprocess_options *options);

#endif
