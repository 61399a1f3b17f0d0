/* Bytes of a picture in, uint8 RGB [size, size, 3] out, equal to Pillow's bit for bit.
 *
 * decode (libjpeg-turbo, libpng) -> rows -> horizontal pass -> vertical pass, row by row as the
 * decoder delivers, and only for the window that the crop keeps. The scratch is fixed beforehand;
 * only the decoders allocate, and give everything back before the call returns. */
#ifndef FC_PREPROCESS_H
#define FC_PREPROCESS_H

#include "engine/base/arena.h"
#include "engine/base/cpu_features.h"
#include "engine/image/windows.h"

#define FC_DEFAULT_MAX_PIXELS 178956970u /* Pillow's own error threshold */

typedef struct {
    int size;               /* side of the output, in pixels */
    flatclip_recipe recipe; /* OPENAI or HF */
    int exif_rotate;        /* nonzero: apply the EXIF orientation first */
    uint64_t max_pixels;    /* width * height above this is refused; never 0 here */
    fc_isa isa;
} fc_preprocess_options;

/* The working memory of one worker. */
typedef struct fc_preprocess_scratch {
    uint8_t *source;       /* [FC_SOURCE_BYTES] one block of the file */
    uint8_t *exif;         /* [FC_EXIF_BYTES], or NULL without exif_rotate */
    fc_windows windows[2]; /* along and across the stored rows */
    int window_room;       /* weights that fit in one window of these */
    double *filter;        /* [window_room] one window while its weights are computed */
    size_t span;           /* pixels that row holds */
    uint8_t *row;          /* [span, 4] the needed part of a row, converted */
    uint8_t *line;         /* [size, 4] a row of the output */
    size_t sum_count;
    int32_t *sums; /* [sum_count] rows of the output that are not complete */
} fc_preprocess_scratch;

/* Measures or places one worker's scratch: a pure function of the options. */
void fc_preprocess_layout(fc_preprocess_scratch *scratch, fc_arena *arena,
                          const fc_preprocess_options *options);

/* Each writes out [size, size, 3] or explains in *err why not. Messages don't repeat the path.
 * Errors: IO, IMAGE_*, MEMORY, ARGUMENT (a picture with no pixels). Scratch: one call at a time. */
flatclip_status fc_preprocess_file(const fc_preprocess_options *options,
                                   fc_preprocess_scratch *scratch, const char *path, uint8_t *out,
                                   flatclip_error *err);
flatclip_status fc_preprocess_bytes(const fc_preprocess_options *options,
                                    fc_preprocess_scratch *scratch, const void *data, size_t bytes,
                                    uint8_t *out, flatclip_error *err);
flatclip_status fc_preprocess_image(const fc_preprocess_options *options,
                                    fc_preprocess_scratch *scratch, const flatclip_image *image,
                                    uint8_t *out, flatclip_error *err);

#endif
