/* The CPU backend's table of operations, and those that are a loop over rows. */
#include "engine/cpu/cpu_backend.h"

#include <math.h>
#include <string.h>

enum { ROWS_PER_TASK = 64 }; /* about 10 microseconds of LayerNorm: worth a thread's attention */

typedef struct {
    const fc_cpu_kernels *kernels;
    fc_rows out, in;
    const fc_norm *w;
    int rows, width;
} row_job;

static void layernorm_task(void *context, int task, int worker)
{
    (void)worker;
    const row_job *job = context;
    const int first = task * ROWS_PER_TASK, left = job->rows - first;
    job->kernels->layernorm(left < ROWS_PER_TASK ? left : ROWS_PER_TASK, job->width,
                            fc_row(job->in, (size_t)first), job->in.stride, job->w->gain,
                            job->w->bias, fc_row(job->out, (size_t)first), job->out.stride);
}

static void layernorm(fc_backend *be, fc_rows out, fc_rows in, const fc_norm *w, int rows,
                      int width)
{
    const fc_cpu_backend *cpu = (const fc_cpu_backend *)be;
    row_job job = { cpu->kernels, out, in, w, rows, width };
    fc_pool_run(cpu->pool, layernorm_task, &job, (rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
}

static void gather_rows(fc_backend *be, fc_rows out, fc_rows in, int step, int rows, int width)
{
    (void)be;
    for (size_t r = 0; r < (size_t)rows; r++)
        memcpy(fc_row(out, r), fc_row(in, r * (size_t)step), (size_t)width * sizeof(float));
}

static void head(fc_backend *be, const fc_workspace *ws, const fc_tower *tower, int batch,
                 int normalize)
{
    const fc_cpu_backend *cpu = (const fc_cpu_backend *)be;
    layernorm(be, ws->pooled_h, ws->pooled, &tower->ln_post, batch, tower->width);
    fc_cpu_linear(be, ws->embed, ws->pooled_h, &tower->proj, batch, FC_PLAIN);
    for (size_t r = 0; normalize && r < (size_t)batch; r++)
        cpu->kernels->unit_row(tower->embed, fc_row(ws->embed, r), fc_row(ws->embed, r));
}

static const fc_backend_ops cpu_ops = {
    fc_cpu_patch_embed, layernorm, fc_cpu_linear, fc_cpu_attention, gather_rows, head,
};

void fc_cpu_backend_layout(fc_cpu_backend *be, fc_arena *arena, const fc_tower *tower,
                           const fc_cpu_kernels *kernels, int threads)
{
    const size_t padded = (size_t)fc_cpu_padded_keys(kernels, tower->seq);

    be->base.ops = &cpu_ops;
    be->kernels = kernels;
    arena->kind = FLATCLIP_REGION_WORKSPACE;
    be->scratch =
        fc_arena_take(arena, "attention scratch table", (size_t)threads, sizeof *be->scratch);
    for (int i = 0; i < threads; i++) {
        const fc_cpu_scratch scratch = {
            fc_arena_take(arena, "attention keys", padded * FC_HEAD_DIM, sizeof(float)),
            fc_arena_take(arena, "attention scores", padded * (size_t)kernels->tile_rows,
                          sizeof(float)),
        };
        if (be->scratch)
            be->scratch[i] = scratch;
    }
}
