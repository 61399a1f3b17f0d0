/* The CPU backend: float32, hand-written, one set of kernels an instruction set. */
#ifndef FC_CPU_BACKEND_H
#define FC_CPU_BACKEND_H

#include "engine/backend.h"

/* What one worker needs for attention. */
typedef struct {
    float *keys;    /* one head's keys, in panels [padded / panel][64][panel] */
    float *scores;  /* [tile_rows, padded] */
} fc_cpu_scratch;

typedef struct {
    fc_backend base;
    const fc_cpu_kernels *kernels;
    fc_pool *pool;
    fc_cpu_scratch *scratch; /* one a worker */
} fc_cpu_backend;

/* Measures or places the backend's own working memory for threads workers, and readies it for
 * these kernels. pool, of as many threads, is the caller's to set before the first operation. */
void fc_cpu_backend_layout(fc_cpu_backend *be, fc_arena *arena, const fc_tower *tower,
                           const fc_cpu_kernels *kernels, int threads);

/* -- Steps that have a file of their own ------------------------------------------------------ */

void fc_cpu_linear(fc_backend *be, fc_rows out, fc_rows in, const fc_linear *w, int rows,
                   fc_epilogue epilogue);
void fc_cpu_attention(fc_backend *be, fc_rows out, fc_rows q, fc_rows k, fc_rows v,
                      const fc_tower *tower, int queries, int batch);
void fc_cpu_patch_embed(fc_backend *be, const fc_workspace *ws, const fc_tower *tower,
                        const void *pixels, fc_pixel_type type, int batch);

/* Keys of one head, padded to whole panels: columns of its scores. */
int fc_cpu_padded_keys(const fc_cpu_kernels *kernels, int seq);

static inline float *fc_row(fc_rows rows, size_t row)
{
    return (float *)rows.data + rows.first + row * rows.stride;
}

#endif
