/* Linear layers: y = epilogue(x W^T + bias).
 *
 * Weights lie in panels [out / panel][in][panel], in the order in which the tile reads them. A
 * block of rows that fits the second-level cache stays there while the panels stream past it; while
 * a panel is in use, the next one is prefetched, which is what makes a batch of one fast. Rows are
 * cut into tiles of nearly equal height; a row's bits do not depend on the cut (cpu_kernels.h). */
#include "engine/cpu/cpu_backend.h"

enum {
    BLOCK_BYTES = 640 << 10,    /* of x: with two panels it fits a second-level cache of 1 MiB */
    BLOCK_ROWS = 56,            /* four tiles: half of them prefetch, and more rows a block are
                                 * slower (measured, docs/PERFORMANCE.md) */
    TASKS_PER_THREAD = 4        /* to even out threads that are disturbed */
};

typedef struct {
    const fc_cpu_kernels *kernels;
    fc_rows out, in;
    const fc_linear *w;
    fc_epilogue epilogue;
    int rows, block_rows, blocks;
    int panels, panels_per_task, groups;
} linear_job;

/* One panel of columns for one block of rows. */
static void run_panel(const linear_job *job, int panel, int first_row, int rows, int prefetch_next)
{
    const fc_cpu_kernels *k = job->kernels;
    const size_t depth = (size_t)job->w->in, width = (size_t)k->panel;
    const float *weight = (const float *)job->w->weight + (size_t)panel * depth * width;
    const float *bias = job->w->bias ? job->w->bias + (size_t)panel * width : NULL;
    const int left = job->w->out - panel * k->panel, columns = left < k->panel ? left : k->panel;
    const int tiles = (rows + k->tile_rows - 1) / k->tile_rows;
    float sums[FC_MAX_TILE_ROWS * FC_MAX_PANEL];

    int row = first_row;
    for (int t = 0; t < tiles; t++) {
        const int tile_rows = rows / tiles + (t < rows % tiles);
        /* A tile prefetches one cache line a step, so the next panel takes panel / 16 tiles. */
        const float *next = prefetch_next && t * 16 < k->panel
                                ? weight + depth * width + (size_t)t * depth * 16
                                : NULL;
        k->tile(tile_rows, (int)depth, fc_row(job->in, (size_t)row), job->in.stride, weight, width,
                sums, next);
        k->finish(job->epilogue, tile_rows, columns, sums, bias,
                  fc_row(job->out, (size_t)row) + (size_t)panel * width, job->out.stride);
        row += tile_rows;
    }
}

static void linear_task(void *context, int task, int worker)
{
    (void)worker;
    const linear_job *job = context;
    const int block = task / job->groups, group = task % job->groups;
    const int first_row = block * job->block_rows;
    const int left = job->rows - first_row, rows = left < job->block_rows ? left : job->block_rows;
    const int first = group * job->panels_per_task;
    int end = first + job->panels_per_task;
    end = end < job->panels ? end : job->panels;

    for (int panel = first; panel < end; panel++)
        run_panel(job, panel, first_row, rows, panel + 1 < end);
}

/* Rows a block: as many as fit, the blocks of nearly equal height. */
static int block_rows_for(int rows, int depth)
{
    int most = BLOCK_BYTES / (depth * (int)sizeof(float));
    most = most < 14 ? 14 : most > BLOCK_ROWS ? BLOCK_ROWS : most;
    const int blocks = (rows + most - 1) / most;
    return (rows + blocks - 1) / blocks;
}

void fc_cpu_linear(fc_backend *be, fc_rows out, fc_rows in, const fc_linear *w, int rows,
                   fc_epilogue epilogue)
{
    const fc_cpu_backend *cpu = (const fc_cpu_backend *)be;
    const int threads = fc_pool_threads(cpu->pool);
    linear_job job = { cpu->kernels, out, in, w, epilogue, rows, 0, 0, 0, 0, 0 };

    job.block_rows = block_rows_for(rows, w->in);
    job.blocks = (rows + job.block_rows - 1) / job.block_rows;
    job.panels = (w->out + cpu->kernels->panel - 1) / cpu->kernels->panel;

    /* One thread walks all panels; several share them, so that there are tasks enough. */
    const int wanted =
        threads == 1 ? 1 : (threads * TASKS_PER_THREAD + job.blocks - 1) / job.blocks;
    job.panels_per_task = (job.panels + wanted - 1) / wanted;
    job.groups = (job.panels + job.panels_per_task - 1) / job.panels_per_task;
    fc_pool_run(cpu->pool, linear_task, &job, job.blocks * job.groups);
}
