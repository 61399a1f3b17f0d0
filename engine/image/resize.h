/* Resizes and crops a picture while its rows arrive, in a fixed amount of memory.
 *
 * Pillow resizes horizontally into 8 bits, then vertically. Only the windows of the crop are
 * computed here, and a row is added to every output that it has a part in as soon as it comes:
 *
 *     upright      row -> along it (8 bits) -> added to the sums of 4 or 5 output rows
 *     transposed   row -> added to the sums of 4 or 5 output columns -> along each (8 bits)
 *
 * "along" means along a stored row, "across" from one stored row to the next. In a picture that is
 * stored lying on its side (EXIF orientation 5 to 8), Pillow's horizontal pass runs across the
 * stored rows, so the two steps change places; the rest is the same. Mirrored pictures have
 * mirrored windows. */
#ifndef FC_RESIZE_H
#define FC_RESIZE_H

#include "engine/image/colour.h"
#include "engine/image/preprocess.h"
#include "engine/image/resize_kernels.h"

typedef struct {
    const fc_resize_kernels *kernels;
    const fc_preprocess_scratch *scratch;
    fc_windows along, across; /* along is relative to `first`; across ascends with the rows */
    fc_colour_path colour;
    const uint8_t (*palette)[3];
    int is_transposed;
    int is_reversed;     /* output order across: the last output is complete first */
    int32_t first, span; /* the stretch of a stored row that the crop needs */
    int slots;           /* sums that are kept: output i has slot i % slots */
    size_t values;       /* in one slot */
    int next;            /* the first output across that is not complete */
    uint8_t *out;        /* [size, size, 3] */
    int size;
} fc_resizer;

/* Prepares for a picture, which must live as long as the resizer. Takes no memory but the scratch.
 * Errors: TOO_LARGE. */
flatclip_status fc_resize_begin(fc_resizer *resizer, const fc_preprocess_options *options,
                                const fc_preprocess_scratch *scratch, const fc_picture *picture,
                                uint8_t *out, flatclip_error *err);

/* Takes row y of the picture; all rows come, in ascending order. out is complete after the last.
 * readable counts the bytes from row on that may be read: with FC_ROW_PAD more than the row itself
 * has, no part of it is ever copied. */
void fc_resize_row(fc_resizer *resizer, int32_t y, const uint8_t *row, size_t readable);

#endif
