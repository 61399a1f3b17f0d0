/* Wraps the backend's operations in a stopwatch. */
#define _GNU_SOURCE
#include "bench/speed/speed_profile.h"

#include <math.h>

#include "bench/measure.h"
#include "bench/speed/speed_device.h"
#include "bench/speed/speed_stopwatch.h"
#include "bench/speed/speed_work.h"
#include "engine/model.h"
#include "engine/session.h"
#include "engine/tower.h"

enum { WARM_UPS = 2, MOST_OPERATIONS = SPEED_MARKS / 2 - 1 };

/* ops is what the backend points to, and therefore how an operation finds the rest. */
typedef struct {
    fc_backend_ops ops;
    const fc_backend_ops *real;
    const fc_tower *tower;
    speed_stopwatch watch;
    int operations;
    speed_stage stage[MOST_OPERATIONS]; /* of each operation; its marks are 1 + 2 i and 2 + 2 i */
} timing_table;

static timing_table *table_of(fc_backend *be)
{
    return (timing_table *)be->ops;
}

static void begin(timing_table *table)
{
    speed_stopwatch_mark(&table->watch);
}

static void end(timing_table *table, speed_stage stage)
{
    speed_stopwatch_mark(&table->watch);
    table->stage[table->operations++] = stage;
}

/* Which part a layer belongs to: by where it stands in the model. */
static speed_stage stage_of_linear(const fc_tower *tower, const fc_linear *w)
{
    for (int i = 0; i < tower->layers; i++) {
        const fc_block *block = &tower->block[i];
        if (w == &block->qkv || w == &block->q || w == &block->kv)
            return SPEED_QKV;
        if (w == &block->out)
            return SPEED_OUT_PROJECTION;
        if (w == &block->fc1 || w == &block->fc2)
            return SPEED_MLP;
    }
    return w == &tower->proj ? SPEED_HEAD : SPEED_REST;
}

static void patch_embed(fc_backend *be, const fc_workspace *ws, const fc_tower *tower,
                        const void *pixels, fc_pixel_type type, int batch)
{
    timing_table *table = table_of(be);
    begin(table);
    table->real->patch_embed(be, ws, tower, pixels, type, batch);
    end(table, SPEED_PATCH_EMBED);
}

static void layernorm(fc_backend *be, fc_rows out, fc_rows in, const fc_norm *w, int rows,
                      int width)
{
    timing_table *table = table_of(be);
    begin(table);
    table->real->layernorm(be, out, in, w, rows, width);
    end(table, w == &table->tower->ln_post ? SPEED_HEAD : SPEED_LAYERNORM);
}

static void linear(fc_backend *be, fc_rows out, fc_rows in, const fc_linear *w, int rows,
                   fc_epilogue epilogue)
{
    timing_table *table = table_of(be);
    begin(table);
    table->real->linear(be, out, in, w, rows, epilogue);
    end(table, stage_of_linear(table->tower, w));
}

static void attention(fc_backend *be, fc_rows out, fc_rows q, fc_rows k, fc_rows v,
                      const fc_tower *tower, int queries, int batch)
{
    timing_table *table = table_of(be);
    begin(table);
    table->real->attention(be, out, q, k, v, tower, queries, batch);
    end(table, SPEED_ATTENTION);
}

static void head(fc_backend *be, const fc_workspace *ws, const fc_tower *tower, int batch,
                 int normalize)
{
    timing_table *table = table_of(be);
    begin(table);
    table->real->head(be, ws, tower, batch, normalize);
    end(table, SPEED_HEAD);
}

/* Everything else goes to the real operations as it is, and its time to the rest. */
static void wrap(timing_table *table, fc_backend *be, const fc_tower *tower)
{
    table->ops = *be->ops;
    table->real = be->ops;
    table->tower = tower;
    table->ops.patch_embed = patch_embed;
    table->ops.layernorm = layernorm;
    table->ops.linear = linear;
    table->ops.attention = attention;
    table->ops.head = head;
    be->ops = &table->ops;
}

/* -- Runs -------------------------------------------------------------------------------------- */

/* Of one forward pass: whole comes first, so that runs can be sorted by it. */
typedef struct {
    double whole, ceiling, stage[SPEED_STAGES];
} profile_sample;

/* The forward pass, operation by operation: on a GPU the same kernels as a graph has, from pixels
 * that lie there. */
static flatclip_status forward(const speed_run *run, fc_backend *be, timing_table *table,
                               const void *pixels, flatclip_error *err)
{
    table->operations = 0;
    speed_stopwatch_start(&table->watch);
    speed_stopwatch_mark(&table->watch);
    fc_run_image_tower(be, table->tower, &run->session->ws, pixels, FC_PIXELS_U8, run->batch, 1);
    speed_stopwatch_mark(&table->watch);
    return speed_stopwatch_stop(&table->watch, err);
}

static flatclip_status take_sample(speed_run *run, fc_backend *be, timing_table *table,
                                   const void *pixels, profile_sample *sample, flatclip_error *err)
{
    const double *at = table->watch.seconds;
    *sample = (profile_sample){ .ceiling = speed_ceiling_flops(&run->ceiling) };
    const flatclip_status status = forward(run, be, table, pixels, err);
    sample->whole = at[2 * table->operations + 1] - at[0];
    sample->stage[SPEED_REST] = sample->whole;
    for (int i = 0; i < table->operations; i++) {
        const double seconds = at[2 * i + 2] - at[2 * i + 1];
        sample->stage[table->stage[i]] += seconds;
        sample->stage[SPEED_REST] -= seconds;
    }
    return status;
}

/* The mean of the middle half of the runs: what disturbed some of them does not count, and stages
 * still sum to the whole, which medians of each would not. */
static profile_sample middle_mean(profile_sample *samples, long count)
{
    qsort(samples, (size_t)count, sizeof *samples, order_numbers);
    const long first = count / 4, end = count - first;
    profile_sample mean = { 0 };
    for (long i = first; i < end; i++) {
        mean.whole += samples[i].whole / (double)(end - first);
        mean.ceiling += samples[i].ceiling / (double)(end - first);
        for (int k = 0; k < SPEED_STAGES; k++)
            mean.stage[k] += samples[i].stage[k] / (double)(end - first);
    }
    return mean;
}

static void report_stage(const speed_run *run, const char *name, double seconds, double flop,
                         const profile_sample *mean)
{
    const double rate = flop > 0 && seconds > 0 ? flop / seconds : (double)NAN;
    const speed_cell cells[] = {
        { "device", run->device, 0, 0, 1 },
        { "backend", run->info.backend, 0, 0, 1 },
        { "precision", run->precision, 0, 0, 1 },
        { "threads", NULL, run->threads, 0, 1 },
        { "batch", NULL, run->batch, 0, 0 },
        { "stage", name, 0, 0, 0 },
        { "ms", NULL, 1e3 * seconds, 4, 0 },
        { "percent", NULL, 100 * seconds / mean->whole, 2, 0 },
        { "gflops", NULL, rate / 1e9, 1, 0 },
        { "ceiling_gflops", NULL, mean->ceiling / 1e9, 1, 0 },
        { "share", NULL, rate / mean->ceiling, 3, 0 },
    };
    speed_report_row(run->report, cells, sizeof cells / sizeof *cells);
}

static void report_profile(const speed_run *run, const profile_sample *mean)
{
    for (int i = 0; i < SPEED_STAGES; i++)
        report_stage(run, speed_stage_name((speed_stage)i), mean->stage[i],
                     speed_stage_flop(&run->info, (speed_stage)i, run->batch), mean);
    report_stage(run, "whole", mean->whole, speed_forward_flop(&run->info, run->batch), mean);
}

/* Two more lines on a GPU: what cuDNN takes for the stages that it has, every block in full. Its
 * convolution begins with normalised 16-bit pixels and ends without class token and LayerNorm. */
static void report_cudnn(const speed_run *run, const profile_sample *mean)
{
    static const struct {
        speed_stage stage;
        const char *name;
    } stages[] = {
        { SPEED_PATCH_EMBED, "cuDNN: patches" },
        { SPEED_ATTENTION, "cuDNN: attention" },
    };
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        flatclip_error err;
        const double seconds = speed_device_cudnn(&run->info, stages[i].stage, run->batch, &err);
        if (isnan(seconds))
            speed_report_lack(stages[i].name, err.message);
        else
            report_stage(run, stages[i].name, seconds, 0, mean);
    }
}

static flatclip_status take_samples(speed_run *run, fc_backend *be, timing_table *table,
                                    const void *pixels, flatclip_error *err)
{
    profile_sample *samples = malloc(SPEED_MAX_REPEATS * sizeof *samples);
    long repeats = 1;
    flatclip_status status = samples ? FLATCLIP_OK : FLATCLIP_ERR_MEMORY;
    for (long i = -WARM_UPS; status == FLATCLIP_OK && i < repeats; i++) {
        profile_sample sample;
        status = take_sample(run, be, table, pixels, &sample, err);
        if (i < 0)
            repeats = speed_repeats(run->options, sample.whole);
        else
            samples[i] = sample;
    }
    if (status == FLATCLIP_OK) {
        const profile_sample mean = middle_mean(samples, repeats);
        report_profile(run, &mean);
        if (run->info.device == FLATCLIP_DEVICE_CUDA && !run->model->wants_cublaslt)
            report_cudnn(run, &mean);
    }
    free(samples);
    return status;
}

/* A batch through the session, so that its pixels lie on the device and all is warm. */
static flatclip_status warm_up(const speed_run *run, const uint8_t *pixels, flatclip_error *err)
{
    float *rows = malloc(speed_row_bytes(run->model, (size_t)run->batch));
    const flatclip_status status =
        rows ? flatclip_encode_pixels_u8(run->session, pixels, (size_t)run->batch, rows, NULL, err)
             : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for %d embeddings", run->batch);
    free(rows);
    return status;
}

static flatclip_status profile(speed_run *run, timing_table *table, const uint8_t *pixels,
                               flatclip_error *err)
{
    fc_backend *be = &run->session->backend.base;
    fc_cuda_stream stream = NULL;
    const void *where = pixels;
#ifdef FC_WITH_CUDA
    if (run->session->cuda) {
        fc_cuda_backend *cuda = fc_cuda_session_backend(run->session->cuda);
        be = &cuda->base;
        stream = cuda->stream;
        where = fc_cuda_session_pixels(run->session->cuda);
    }
#endif
    flatclip_status status = warm_up(run, pixels, err);
    if (status == FLATCLIP_OK)
        status = speed_stopwatch_open(&table->watch, stream, err);
    if (status == FLATCLIP_OK) {
        wrap(table, be, &run->model->tower);
        status = take_samples(run, be, table, where, err);
        be->ops = table->real;
    }
    speed_stopwatch_close(&table->watch);
    return status;
}

flatclip_status speed_profile(speed_run *run, flatclip_error *err)
{
    timing_table *table = calloc(1, sizeof *table);
    uint8_t *pixels = speed_noise(run->model, run->batch);
    const flatclip_status status =
        table && pixels ? profile(run, table, pixels, err)
                        : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a profile of %d images",
                                  run->batch);
    free(pixels);
    free(table);
    return status;
}
