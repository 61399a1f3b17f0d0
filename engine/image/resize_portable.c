/* The resize loops in plain C: what the other instruction sets must equal. */
#include "engine/image/resize_kernels.h"

static uint8_t clamp_sum(int32_t sum)
{
    const int32_t value = sum >> FC_WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void pack(fc_windows *windows)
{
    (void)windows; /* plain 32-bit weights are what the loops below want */
}

static void along_gray(uint8_t *out, const uint8_t *row, const fc_windows *windows)
{
    for (int i = 0; i < windows->count; i++) {
        const uint8_t *pixel = row + windows->begin[i];
        const int32_t *weight = windows->weight + (size_t)i * windows->room;
        int32_t sum = FC_WEIGHT_HALF;
        for (int k = 0; k < windows->length[i]; k++)
            sum += pixel[k] * weight[k];
        out[i] = clamp_sum(sum);
    }
}

static void along_rgb(uint8_t *out, const uint8_t *row, const fc_windows *windows)
{
    for (int i = 0; i < windows->count; i++) {
        const uint8_t *pixel = row + 3 * (size_t)windows->begin[i];
        const int32_t *weight = windows->weight + (size_t)i * windows->room;
        int32_t r = FC_WEIGHT_HALF, g = FC_WEIGHT_HALF, b = FC_WEIGHT_HALF;
        for (int k = 0; k < windows->length[i]; k++, pixel += 3) {
            r += pixel[0] * weight[k];
            g += pixel[1] * weight[k];
            b += pixel[2] * weight[k];
        }
        out[3 * i] = clamp_sum(r);
        out[3 * i + 1] = clamp_sum(g);
        out[3 * i + 2] = clamp_sum(b);
    }
}

static void along_four(uint8_t *out, const uint8_t *row, const fc_windows *windows)
{
    for (int i = 0; i < windows->count; i++) {
        const uint8_t *pixel = row + 4 * (size_t)windows->begin[i];
        const int32_t *weight = windows->weight + (size_t)i * windows->room;
        int32_t sum[4] = { FC_WEIGHT_HALF, FC_WEIGHT_HALF, FC_WEIGHT_HALF, FC_WEIGHT_HALF };
        for (int k = 0; k < windows->length[i]; k++, pixel += 4)
            for (int band = 0; band < 4; band++)
                sum[band] += pixel[band] * weight[k];
        for (int band = 0; band < 4; band++)
            out[4 * i + band] = clamp_sum(sum[band]);
    }
}

static void along(uint8_t *out, const uint8_t *row, const fc_windows *windows, int bands)
{
    if (bands == 1)
        along_gray(out, row, windows);
    else if (bands == 3)
        along_rgb(out, row, windows);
    else
        along_four(out, row, windows);
}

static void across(int32_t *sums, const uint8_t *row, int32_t weight, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += weight * row[i];
}

static void clamp(uint8_t *out, const int32_t *sums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = clamp_sum(sums[i]);
}

const fc_resize_kernels fc_resize_portable = { pack, along, across, clamp };

const fc_resize_kernels *fc_resize_kernels_for(fc_isa isa)
{
#if defined(__x86_64__)
    /* AVX-512 has no kernels of its own: see resize_avx2.c. */
    if (isa != FC_ISA_PORTABLE)
        return &fc_resize_avx2;
#endif
    (void)isa;
    return &fc_resize_portable;
}
