/* Resizes and crops a picture while its rows arrive. */
#include "engine/image/resize.h"

#include "engine/image/crop.h"

#include <assert.h>
#include <string.h>

/* What EXIF's orientations are made of: columns or rows from the other end, and then rows for
 * columns (6 is a picture that must be turned clockwise). */
static int is_mirrored_along(int orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static int is_mirrored_across(int orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

static void fill_windows(fc_resizer *r, fc_windows *windows, const fc_axis *axis, int is_nearest)
{
    assert(is_nearest || r->scratch->window_room >= fc_window_room((double)axis->in / axis->out));
    windows->count = r->size;
    if (is_nearest)
        fc_windows_nearest(windows, axis);
    else
        fc_windows_bicubic(windows, axis, r->scratch->filter);
}

/* Keeps only the stretch of a stored row that some window covers. */
static void cut_stretch(fc_resizer *r)
{
    int32_t first = INT32_MAX, end = 0;
    for (int i = 0; i < r->along.count; i++) {
        const int32_t begin = r->along.begin[i];
        if (begin < first)
            first = begin;
        if (begin + r->along.length[i] > end)
            end = begin + r->along.length[i];
    }
    for (int i = 0; i < r->along.count; i++)
        r->along.begin[i] -= first;
    r->first = first;
    r->span = end - first;
}

static void prepare_windows(fc_resizer *r, const fc_crop *crop, int is_nearest, int orientation)
{
    r->along = r->scratch->windows[0];
    r->across = r->scratch->windows[1];
    r->is_transposed = orientation >= 5;
    const fc_axis *along = r->is_transposed ? &crop->vertical : &crop->horizontal;
    const fc_axis *across = r->is_transposed ? &crop->horizontal : &crop->vertical;

    fill_windows(r, &r->along, along, is_nearest);
    if (is_mirrored_along(orientation))
        fc_windows_mirror(&r->along, along->in);
    cut_stretch(r);
    r->kernels->pack(&r->along);

    fill_windows(r, &r->across, across, is_nearest);
    r->is_reversed = is_mirrored_across(orientation);
    if (r->is_reversed) {
        fc_windows_mirror(&r->across, across->in);
        fc_windows_reverse(&r->across);
    }
}

flatclip_status fc_resize_begin(fc_resizer *r, const fc_preprocess_options *options,
                                const fc_preprocess_scratch *scratch, const fc_picture *picture,
                                uint8_t *out, flatclip_error *err)
{
    const int is_turned = picture->orientation >= 5;
    const int32_t width = is_turned ? picture->height : picture->width;
    const int32_t height = is_turned ? picture->width : picture->height;
    FC_TRY(fc_check_size(options, (uint64_t)width, (uint64_t)height, err));

    const fc_crop crop = fc_crop_for(options, width, height);
    const int is_hf = options->recipe == FLATCLIP_RECIPE_HF;
    const int is_nearest = !is_hf && (picture->is_bilevel || picture->kind == FC_PIXEL_INDEX);
    *r = (fc_resizer){ .kernels = fc_resize_kernels_for(options->isa),
                       .scratch = scratch,
                       .palette = picture->palette,
                       .out = out,
                       .size = options->size };
    r->colour = fc_colour_path_for(picture->kind, is_hf || !crop.is_resized);
    prepare_windows(r, &crop, is_nearest, picture->orientation);

    r->values = (size_t)(r->is_transposed ? r->span : r->size) * (size_t)r->colour.bands;
    r->slots = fc_windows_overlap(&r->across);
    assert(r->values * (size_t)r->slots <= scratch->sum_count);
    assert((size_t)r->span <= scratch->span);
    memset(scratch->row + (size_t)r->span * (size_t)r->colour.bands, 0, FC_ROW_PAD);
    return FLATCLIP_OK;
}

static int32_t *sums_of(const fc_resizer *r, int output)
{
    return r->scratch->sums + (size_t)(output % r->slots) * r->values;
}

/* An output row (or, transposed, column) has all its sums: writes it out as RGB. */
static void complete(fc_resizer *r, int output)
{
    const size_t size = (size_t)r->size;
    const size_t place = r->is_reversed ? size - 1 - (size_t)output : (size_t)output;
    uint8_t *line = r->scratch->line;
    if (!r->is_transposed) {
        r->kernels->clamp(line, sums_of(r, output), r->values);
        r->colour.finish(r->out + 3 * size * place, 3, line, size);
        return;
    }
    r->kernels->clamp(r->scratch->row, sums_of(r, output), r->values);
    r->kernels->along(line, r->scratch->row, &r->along, r->colour.bands);
    r->colour.finish(r->out + 3 * place, 3 * size, line, size);
}

static void add_row(fc_resizer *r, int32_t y, const uint8_t *values)
{
    const fc_windows *across = &r->across;
    for (int i = r->next; i < r->size && across->begin[i] <= y; i++) {
        const int32_t at = y - across->begin[i];
        int32_t *sums = sums_of(r, i);
        if (at == 0)
            for (size_t k = 0; k < r->values; k++)
                sums[k] = FC_WEIGHT_HALF;
        r->kernels->across(sums, values, across->weight[(size_t)i * across->room + at], r->values);
    }
    while (r->next < r->size && across->begin[r->next] + across->length[r->next] == y + 1)
        complete(r, r->next++);
}

/* The stretch of the row that is needed, in the bands that are resized, padded for `along`. */
static const uint8_t *prepare_row(const fc_resizer *r, const uint8_t *row, size_t readable)
{
    const size_t bands = (size_t)r->colour.source_bands;
    const size_t first = (size_t)r->first * bands, bytes = (size_t)r->span * bands;
    if (r->colour.convert)
        r->colour.convert(r->scratch->row, row + first, (size_t)r->span, r->palette);
    else if (readable - first - bytes < FC_ROW_PAD)
        memcpy(r->scratch->row, row + first, bytes);
    else
        return row + first;
    return r->scratch->row;
}

void fc_resize_row(fc_resizer *r, int32_t y, const uint8_t *row, size_t readable)
{
    if (r->next == r->size || r->across.begin[r->next] > y)
        return; /* above or below the crop */
    const uint8_t *values = prepare_row(r, row, readable);
    if (!r->is_transposed) {
        r->kernels->along(r->scratch->line, values, &r->along, r->colour.bands);
        values = r->scratch->line;
    }
    add_row(r, y, values);
}
