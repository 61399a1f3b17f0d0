/* The three loops in which resizing spends its time, for each instruction set.
 *
 * All sets give the same bits: sums are 32-bit integers, whose order does not matter. */
#ifndef FC_RESIZE_KERNELS_H
#define FC_RESIZE_KERNELS_H

#include "engine/base/cpu_features.h"
#include "engine/image/windows.h"

/* Bytes after a row that `along` may read (they are multiplied by zero). */
#define FC_ROW_PAD 64

typedef struct {
    /* Brings the weights of windows into the form that `along` wants, in place. */
    void (*pack)(fc_windows *windows);

    /* Resizes along a row: out [windows->count, bands] from row, pixels of `bands` (1, 3 or 4)
     * interleaved bytes. out is padded by 4 bytes. */
    void (*along)(uint8_t *out, const uint8_t *row, const fc_windows *windows, int bands);

    /* Resizes across rows: sums[i] += weight * row[i] for count values. */
    void (*across)(int32_t *sums, const uint8_t *row, int32_t weight, size_t count);

    /* Ends a sum: out[i] = sums[i] without its fraction, clamped to 0..255, for count values. */
    void (*clamp)(uint8_t *out, const int32_t *sums, size_t count);
} fc_resize_kernels;

/* Half of the last place, where sums start so that dropping the fraction rounds. */
#define FC_WEIGHT_HALF (1 << (FC_WEIGHT_BITS - 1))

extern const fc_resize_kernels fc_resize_portable;
#if defined(__x86_64__)
extern const fc_resize_kernels fc_resize_avx2;
#endif

/* The kernels for an instruction set. */
const fc_resize_kernels *fc_resize_kernels_for(fc_isa isa);

#endif
