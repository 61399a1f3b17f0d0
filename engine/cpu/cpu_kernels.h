/* The inner loops of the CPU backend: one table per instruction set, all compiled from the same
 * source (kernels_body.h), so that there is one place where each formula stands. */
#ifndef FC_CPU_KERNELS_H
#define FC_CPU_KERNELS_H

#include "engine/base/cpu_features.h"

/* What happens to a row of a linear layer once its sums are complete. */
typedef enum {
    FC_PLAIN,
    FC_BIAS,
    FC_BIAS_QUICK_GELU,
    FC_BIAS_GELU,
    FC_BIAS_RESIDUAL    /* destination += sums + bias */
} fc_epilogue;

enum { FC_MAX_TILE_ROWS = 14, FC_MAX_PANEL = 32 };

typedef struct {
    int panel;          /* columns that one tile computes: the width of a weight panel */
    int tile_rows;      /* rows that one tile computes at most */

    /* sums[r * panel + c] = sum over k, ascending, of a[r * a_stride + k] * b[k * b_stride + c],
     * for rows rows (1..tile_rows) and a whole panel of columns. Each sum is one float32
     * accumulator, so a row's bits do not depend on rows. Each step also prefetches one cache line
     * from prefetch on (NULL: none). sums: at least rows * panel floats, contiguous. */
    void (*tile)(int rows, int depth, const float *a, size_t a_stride, const float *b,
                 size_t b_stride, float *sums, const float *prefetch);

    /* Finishes rows x columns sums into out: see fc_epilogue. bias is per column, or NULL for
     * PLAIN. bias may be read, and sums are readable, up to the full panel. */
    void (*finish)(fc_epilogue epilogue, int rows, int columns, const float *sums,
                   const float *bias, float *out, size_t out_stride);

    /* out = (x - mean) / sqrt(variance + 1e-5) * gain + bias, a row at a time; width is a multiple
     * of 64. out may be x. Ba, Kiros and Hinton 2016, https://arxiv.org/abs/1607.06450 */
    void (*layernorm)(int rows, int width, const float *x, size_t x_stride, const float *gain,
                      const float *bias, float *out, size_t out_stride);

    /* In place: row[i] = exp(scale * (row[i] - max)) / sum, for the first count of padded entries;
     * the rest becomes 0. padded is a multiple of the panel. */
    void (*softmax)(int rows, int count, int padded, float scale, float *scores, size_t stride);

    /* out = x / |x|, in one fixed order of additions; NaN where |x| is 0 or not finite. out may be
     * x. */
    void (*unit_row)(int width, const float *x, float *out);

    /* Tables for tests: the transcendental functions, over count values (a multiple of 16). */
    void (*exp)(int count, const float *x, float *out);
} fc_cpu_kernels;

/* The table of an instruction set; NULL if this build has none for it (another processor). */
const fc_cpu_kernels *fc_cpu_kernels_for(fc_isa isa);

extern const fc_cpu_kernels fc_cpu_kernels_portable;
#if defined(__x86_64__)
extern const fc_cpu_kernels fc_cpu_kernels_avx2;
extern const fc_cpu_kernels fc_cpu_kernels_avx512;
#endif

#endif
