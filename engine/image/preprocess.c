/* The three ways in: a file, its bytes, or a decoded picture; and the scratch that they share. */
#include "engine/image/preprocess.h"

#include "engine/image/crop.h"
#include "engine/image/decode.h"
#include "engine/image/exif.h"
#include "engine/image/resize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_BYTES = 32 }; /* of a file, to tell its format */

/* -- Scratch ----------------------------------------------------------------------------------- */

/* Sums that are alive at once. Upright, at most every output row. Transposed, slots * span: when
 * shrinking, five or six windows share a pixel; when growing, 4 / scale + 1 do, and the span is
 * size * scale + 6, whose product is below 12 * (size + 1) or size * size. */
static size_t sum_count(const fc_preprocess_options *options, size_t span)
{
    const size_t size = (size_t)options->size;
    size_t pixels = size * size;
    if (options->exif_rotate && pixels < 12 * (size + 1))
        pixels = 12 * (size + 1);
    if (options->exif_rotate && pixels < 6 * span)
        pixels = 6 * span;
    return 4 * pixels;
}

void fc_preprocess_layout(fc_preprocess_scratch *s, fc_arena *arena,
                          const fc_preprocess_options *options)
{
    const size_t size = (size_t)options->size;
    const double scale = fc_strongest_scale(options);

    s->window_room = fc_window_room(scale);
    s->span = (size_t)ceil(scale * (options->size + 4)) + 8; /* all windows, both ends included */
    s->sum_count = sum_count(options, s->span);
    s->source = fc_arena_take(arena, "image.source", FC_SOURCE_BYTES, 1);
    s->exif = options->exif_rotate ? fc_arena_take(arena, "image.exif", FC_EXIF_BYTES, 1) : NULL;
    for (int i = 0; i < 2; i++) {
        fc_windows *w = &s->windows[i];
        w->begin = fc_arena_take(arena, "image.window_begin", size, sizeof *w->begin);
        w->length = fc_arena_take(arena, "image.window_length", size, sizeof *w->length);
        w->weight = fc_arena_take(arena, "image.window_weight", size * (size_t)s->window_room,
                                  sizeof *w->weight);
    }
    s->filter = fc_arena_take(arena, "image.filter", (size_t)s->window_room, sizeof *s->filter);
    s->row = fc_arena_take(arena, "image.row", s->span * 4 + FC_ROW_PAD, 1);
    s->line = fc_arena_take(arena, "image.line", size * 4 + FC_ROW_PAD, 1);
    s->sums = fc_arena_take(arena, "image.sums", s->sum_count, sizeof *s->sums);
}

/* -- Encoded pictures -------------------------------------------------------------------------- */

/* What begins like no picture: says what is there, for the name of the file does not tell. */
static flatclip_status unknown_format(const fc_source *source, flatclip_error *err)
{
    char bytes[3 * 8 + 1] = "";
    for (size_t i = 0; i < source->left && i < 8; i++)
        snprintf(bytes + 3 * i, 4, " %02x", source->next[i]);
    return fc_fail(err, FLATCLIP_ERR_IMAGE_UNKNOWN,
                   "neither JPEG nor PNG nor any other picture format; it begins with%s", bytes);
}

static flatclip_status decode(const fc_preprocess_options *options, fc_preprocess_scratch *scratch,
                              fc_source *source, uint8_t *out, flatclip_error *err)
{
    const fc_decode_job job = { options, scratch, source, out, err };
    fc_source_peek(source, HEAD_BYTES);
    if (source->system_error)
        return fc_source_ended(source, "", err);
    if (!source->left)
        return fc_fail(err, FLATCLIP_ERR_IMAGE_EMPTY, "empty file: it has no bytes at all");

    const char *format = flatclip_image_format(source->next, source->left);
    if (!format)
        return unknown_format(source, err);
    if (strcmp(format, "JPEG") == 0)
        return fc_decode_jpeg(&job);
    if (strcmp(format, "PNG") == 0)
        return fc_decode_png(&job);
    return fc_fail(
        err, FLATCLIP_ERR_IMAGE_UNSUPPORTED,
        "the content is %s; only JPEG and PNG are read. Convert it, or decode it yourself "
        "and pass the pixels",
        format);
}

flatclip_status fc_preprocess_file(const fc_preprocess_options *options,
                                   fc_preprocess_scratch *scratch, const char *path, uint8_t *out,
                                   flatclip_error *err)
{
    fc_source source;
    FC_TRY(fc_source_open(&source, path, scratch->source, err));
    const flatclip_status status = decode(options, scratch, &source, out, err);
    fc_source_close(&source);
    return status;
}

flatclip_status fc_preprocess_bytes(const fc_preprocess_options *options,
                                    fc_preprocess_scratch *scratch, const void *data, size_t bytes,
                                    uint8_t *out, flatclip_error *err)
{
    fc_source source;
    if (!data && bytes)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "data is NULL, but bytes is %zu", bytes);
    fc_source_memory(&source, data, bytes);
    return decode(options, scratch, &source, out, err);
}

/* -- Decoded pictures -------------------------------------------------------------------------- */

static flatclip_status check_image(const flatclip_image *image, flatclip_error *err)
{
    if (!image->pixels)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "pixels is NULL");
    if (image->width < 1 || image->height < 1)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "the picture is %d x %d, expected 1 x 1 or more",
                       image->width, image->height);
    if (image->stride && image->stride / 3 < (size_t)image->width)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "stride is %zu bytes, expected 0 or at least 3 * width = %zu", image->stride,
                       3 * (size_t)image->width);
    return FLATCLIP_OK;
}

flatclip_status fc_preprocess_image(const fc_preprocess_options *options,
                                    fc_preprocess_scratch *scratch, const flatclip_image *image,
                                    uint8_t *out, flatclip_error *err)
{
    FC_TRY(check_image(image, err));
    const fc_picture picture = {
        .width = image->width, .height = image->height, .kind = FC_PIXEL_RGB, .orientation = 1
    };
    const size_t width_bytes = 3 * (size_t)image->width;
    const size_t stride = image->stride ? image->stride : width_bytes;
    fc_resizer resizer;
    FC_TRY(fc_resize_begin(&resizer, options, scratch, &picture, out, err));

    for (int32_t y = 0; y < image->height; y++) {
        const size_t rows_below = (size_t)(image->height - 1 - y);
        fc_resize_row(&resizer, y, image->pixels + (size_t)y * stride,
                      rows_below * stride + width_bytes);
    }
    return FLATCLIP_OK;
}
