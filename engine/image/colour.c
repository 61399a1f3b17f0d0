/* Pillow's conversions between kinds of pixels. */
#include "engine/image/colour.h"

/* a * b / 255, rounded as Pillow does. */
static unsigned scale_255(unsigned a, unsigned b)
{
    const unsigned product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

/* -- Before resizing --------------------------------------------------------------------------- */

static void index_to_rgb(uint8_t *out, const uint8_t *in, size_t count, const uint8_t (*palette)[3])
{
    for (size_t i = 0; i < count; i++)
        for (int band = 0; band < 3; band++)
            out[3 * i + band] = palette[in[i]][band];
}

static void drop_gray_alpha(uint8_t *out, const uint8_t *in, size_t count,
                            const uint8_t (*palette)[3])
{
    (void)palette;
    for (size_t i = 0; i < count; i++)
        out[i] = in[2 * i];
}

static void drop_alpha(uint8_t *out, const uint8_t *in, size_t count, const uint8_t (*palette)[3])
{
    (void)palette;
    for (size_t i = 0; i < count; i++)
        for (int band = 0; band < 3; band++)
            out[3 * i + band] = in[4 * i + band];
}

static void premultiply_gray(uint8_t *out, const uint8_t *in, size_t count,
                             const uint8_t (*palette)[3])
{
    (void)palette;
    for (size_t i = 0; i < count; i++) {
        const unsigned alpha = in[2 * i + 1];
        const uint8_t gray = (uint8_t)scale_255(in[2 * i], alpha);
        out[4 * i] = out[4 * i + 1] = out[4 * i + 2] = gray;
        out[4 * i + 3] = (uint8_t)alpha;
    }
}

static void premultiply(uint8_t *out, const uint8_t *in, size_t count, const uint8_t (*palette)[3])
{
    (void)palette;
    for (size_t i = 0; i < count; i++) {
        const unsigned alpha = in[4 * i + 3];
        for (int band = 0; band < 3; band++)
            out[4 * i + band] = (uint8_t)scale_255(in[4 * i + band], alpha);
        out[4 * i + 3] = (uint8_t)alpha;
    }
}

/* Resizing rounds, so inverting must come before it, as in Pillow. */
static void invert(uint8_t *out, const uint8_t *in, size_t count, const uint8_t (*palette)[3])
{
    (void)palette;
    for (size_t i = 0; i < 4 * count; i++)
        out[i] = (uint8_t)(255 - in[i]);
}

static uint8_t ink_to_light(unsigned ink, unsigned black)
{
    const unsigned white = 255 - black;
    return (uint8_t)(white - scale_255(ink, white));
}

static void inverted_cmyk_to_rgb(uint8_t *out, const uint8_t *in, size_t count,
                                 const uint8_t (*palette)[3])
{
    (void)palette;
    for (size_t i = 0; i < count; i++)
        for (int band = 0; band < 3; band++)
            out[3 * i + band] = ink_to_light(255u - in[4 * i + band], 255u - in[4 * i + 3]);
}

/* -- After resizing ---------------------------------------------------------------------------- */

static void finish_gray(uint8_t *out, size_t step, const uint8_t *in, size_t count)
{
    for (size_t i = 0; i < count; i++, out += step)
        out[0] = out[1] = out[2] = in[i];
}

static void finish_rgb(uint8_t *out, size_t step, const uint8_t *in, size_t count)
{
    for (size_t i = 0; i < count; i++, out += step)
        for (int band = 0; band < 3; band++)
            out[band] = in[3 * i + band];
}

static void finish_premultiplied(uint8_t *out, size_t step, const uint8_t *in, size_t count)
{
    for (size_t i = 0; i < count; i++, in += 4, out += step) {
        const unsigned alpha = in[3];
        for (int band = 0; band < 3; band++) {
            const unsigned value = alpha == 0 ? in[band] : 255u * in[band] / alpha;
            out[band] = (uint8_t)(value > 255 ? 255 : value);
        }
    }
}

static void finish_cmyk(uint8_t *out, size_t step, const uint8_t *in, size_t count)
{
    for (size_t i = 0; i < count; i++, in += 4, out += step)
        for (int band = 0; band < 3; band++)
            out[band] = ink_to_light(in[band], in[3]);
}

fc_colour_path fc_colour_path_for(fc_pixel_kind kind, int rgb_first)
{
    switch (kind) {
    case FC_PIXEL_GRAY: break;
    case FC_PIXEL_GRAY_ALPHA:
        if (rgb_first)
            return (fc_colour_path){ 2, 1, drop_gray_alpha, finish_gray };
        return (fc_colour_path){ 2, 4, premultiply_gray, finish_premultiplied };
    case FC_PIXEL_RGB: return (fc_colour_path){ 3, 3, NULL, finish_rgb };
    case FC_PIXEL_RGBA:
        if (rgb_first)
            return (fc_colour_path){ 4, 3, drop_alpha, finish_rgb };
        return (fc_colour_path){ 4, 4, premultiply, finish_premultiplied };
    case FC_PIXEL_CMYK_INVERTED:
        if (rgb_first)
            return (fc_colour_path){ 4, 3, inverted_cmyk_to_rgb, finish_rgb };
        return (fc_colour_path){ 4, 4, invert, finish_cmyk };
    case FC_PIXEL_INDEX: return (fc_colour_path){ 1, 3, index_to_rgb, finish_rgb };
    }
    return (fc_colour_path){ 1, 1, NULL, finish_gray };
}
