/* The geometry of both recipes, rounded as Python rounds it. */
#include "engine/image/crop.h"

/* int(size * longer / shorter). Every product is exact in a double, so the quotient is Python's. */
static int64_t resized_length(int size, int32_t longer, int32_t shorter)
{
    return (int64_t)((double)((int64_t)size * longer) / (double)shorter);
}

/* Where the crop begins. openai: round((length - size) / 2), half to even; hf: rounded down. */
static int64_t crop_offset(int64_t length, int size, flatclip_recipe recipe)
{
    const int64_t surplus = length - size, half = surplus / 2;
    if (recipe == FLATCLIP_RECIPE_HF || surplus % 2 == 0)
        return half;
    return half + half % 2;
}

fc_crop fc_crop_for(const fc_preprocess_options *options, int32_t width, int32_t height)
{
    const int size = options->size;
    const int32_t shorter = width < height ? width : height;
    fc_crop crop = { { width, width, 0 }, { height, height, 0 }, shorter != size };
    if (crop.is_resized) {
        crop.horizontal.out = width <= height ? size : resized_length(size, width, height);
        crop.vertical.out = width <= height ? resized_length(size, height, width) : size;
    }
    crop.horizontal.first = crop_offset(crop.horizontal.out, size, options->recipe);
    crop.vertical.first = crop_offset(crop.vertical.out, size, options->recipe);
    return crop;
}

flatclip_status fc_check_size(const fc_preprocess_options *options, uint64_t width, uint64_t height,
                              flatclip_error *err)
{
    const uint64_t shorter = width < height ? width : height;
    if (height && width > options->max_pixels / height)
        return fc_fail(err, FLATCLIP_ERR_IMAGE_TOO_LARGE,
                       "%llu x %llu is %.0f pixels, the limit is %llu (max_pixels, --max-pixels)",
                       (unsigned long long)width, (unsigned long long)height,
                       (double)width * (double)height, (unsigned long long)options->max_pixels);
    if (shorter > FC_MAX_SHORT_SIDE)
        return fc_fail(err, FLATCLIP_ERR_IMAGE_TOO_LARGE,
                       "%llu x %llu: the shorter side may have %d pixels; scale the picture down",
                       (unsigned long long)width, (unsigned long long)height, FC_MAX_SHORT_SIDE);
    return FLATCLIP_OK;
}

int32_t fc_longest_short_side(const fc_preprocess_options *options)
{
    int32_t side = 1;
    for (int32_t step = 1 << 15; step; step >>= 1) {
        const uint64_t next = (uint64_t)(side + step);
        if (next <= FC_MAX_SHORT_SIDE && next * next <= options->max_pixels)
            side += step;
    }
    return side;
}

double fc_strongest_scale(const fc_preprocess_options *options)
{
    /* The longer side's length is rounded down, from size or more, so that it shrinks a little
     * more: by less than (size + 1) / size. */
    const double size = options->size;
    const double scale = fc_longest_short_side(options) / size * ((size + 1) / size);
    return scale < 1.0 ? 1.0 : scale;
}
