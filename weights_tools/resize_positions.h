/* Fitting an image tower's position embeddings to another image size. */
#ifndef FC_RESIZE_POSITIONS_H
#define FC_RESIZE_POSITIONS_H

#include "engine/base/error.h"

/* Resamples position embeddings from a square grid of patches to another one, each of width numbers
 * as one channel. from is [1 + from_grid * from_grid, width], to [1 + to_grid * to_grid, width];
 * they must not overlap. Row 0, the class token's, is copied; so is all where the grids are equal.
 *
 * It is what open_clip's resize_pos_embed does: bicubic interpolation with antialias and without
 * aligned corners. With ratio = from_grid / to_grid and stretch = max(ratio, 1), position i along
 * an axis is the weighted mean of the old positions j next to its centre,
 *
 *     c = (i + 1/2) * ratio,    w_j = k((j + 1/2 - c) / stretch) / sum of all w,
 *
 * where k is Keys' cubic convolution kernel with a = -1/2 (R. Keys, 1981, as in Pillow):
 *
 *     k(x) = 3/2 |x|^3 - 5/2 |x|^2 + 1               for |x| < 1
 *     k(x) = -1/2 |x|^3 + 5/2 |x|^2 - 4 |x| + 2      for 1 <= |x| < 2,    0 beyond.
 *
 * Positions outside the grid do not exist: the sum leaves them out. c, k and w are computed in
 * float32, as by torch, the sums in float64: torch's own results in float32 are met within 1e-6
 * (tests/test_resize_positions.c).
 * Errors: ARGUMENT for a grid outside 1..4096 or a width below 1, MEMORY. */
flatclip_status fc_resize_positions(const float *from, int from_grid, float *to, int to_grid,
                                    int width, flatclip_error *err);

#endif
