/* Wraps the backend's operations in a clock. */
#define _GNU_SOURCE
#include "bench/speed/speed_profile.h"

#include <math.h>

#include "bench/measure.h"
#include "bench/speed/speed_work.h"
#include "engine/session.h"

enum { WARM_UPS = 2 };

/* ops is what the backend points to, and therefore how an operation finds the rest. */
typedef struct {
    fc_backend_ops ops;
    const fc_backend_ops *real;
    const fc_tower *tower;
    double seconds[SPEED_STAGES];
} timing_table;

static timing_table *table_of(fc_backend *be)
{
    return (timing_table *)be->ops;
}

static void account(timing_table *table, speed_stage stage, double start)
{
    table->seconds[stage] += seconds_now() - start;
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
    const double start = seconds_now();
    table->real->patch_embed(be, ws, tower, pixels, type, batch);
    account(table, SPEED_PATCH_EMBED, start);
}

static void layernorm(fc_backend *be, fc_rows out, fc_rows in, const fc_norm *w, int rows,
                      int width)
{
    timing_table *table = table_of(be);
    const double start = seconds_now();
    table->real->layernorm(be, out, in, w, rows, width);
    account(table, w == &table->tower->ln_post ? SPEED_HEAD : SPEED_LAYERNORM, start);
}

static void linear(fc_backend *be, fc_rows out, fc_rows in, const fc_linear *w, int rows,
                   fc_epilogue epilogue)
{
    timing_table *table = table_of(be);
    const double start = seconds_now();
    table->real->linear(be, out, in, w, rows, epilogue);
    account(table, stage_of_linear(table->tower, w), start);
}

static void attention(fc_backend *be, fc_rows out, fc_rows q, fc_rows k, fc_rows v,
                      const fc_tower *tower, int queries, int batch)
{
    timing_table *table = table_of(be);
    const double start = seconds_now();
    table->real->attention(be, out, q, k, v, tower, queries, batch);
    account(table, SPEED_ATTENTION, start);
}

static void head(fc_backend *be, const fc_workspace *ws, const fc_tower *tower, int batch,
                 int normalize)
{
    timing_table *table = table_of(be);
    const double start = seconds_now();
    table->real->head(be, ws, tower, batch, normalize);
    account(table, SPEED_HEAD, start);
}

/* Everything else goes to the real operations as it is, and its time to the rest. */
static void wrap(timing_table *table, fc_backend *be, const fc_tower *tower)
{
    *table = (timing_table){ .ops = *be->ops, .real = be->ops, .tower = tower };
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

static flatclip_status take_sample(speed_run *run, timing_table *table, const uint8_t *pixels,
                                   float *rows, profile_sample *sample, flatclip_error *err)
{
    memset(table->seconds, 0, sizeof table->seconds);
    sample->ceiling = run->ceiling ? speed_ceiling_flops(run->ceiling) : (double)NAN;
    const double start = seconds_now();
    const flatclip_status status =
        flatclip_encode_pixels_u8(run->session, pixels, (size_t)run->batch, rows, NULL, err);
    sample->whole = seconds_now() - start;
    memcpy(sample->stage, table->seconds, sizeof sample->stage);
    double known = 0;
    for (int i = 0; i < SPEED_STAGES; i++)
        known += sample->stage[i];
    sample->stage[SPEED_REST] += sample->whole - known;
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

static flatclip_status take_samples(speed_run *run, timing_table *table, const uint8_t *pixels,
                                    float *rows, flatclip_error *err)
{
    profile_sample *samples = malloc(SPEED_MAX_REPEATS * sizeof *samples);
    long repeats = 1;
    flatclip_status status = samples ? FLATCLIP_OK : FLATCLIP_ERR_MEMORY;
    for (long i = -WARM_UPS; status == FLATCLIP_OK && i < repeats; i++) {
        profile_sample sample;
        status = take_sample(run, table, pixels, rows, &sample, err);
        if (i < 0)
            repeats = speed_repeats(run->options, sample.whole);
        else
            samples[i] = sample;
    }
    if (status == FLATCLIP_OK) {
        const profile_sample mean = middle_mean(samples, repeats);
        report_profile(run, &mean);
    }
    free(samples);
    return status;
}

flatclip_status speed_profile(speed_run *run, flatclip_error *err)
{
    if (run->info.device != FLATCLIP_DEVICE_CPU)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE,
                       "--profile is not available on device %s in this version; use --device cpu",
                       run->device);
    uint8_t *pixels = speed_noise(run->model, run->batch);
    float *rows = malloc(speed_row_bytes(run->model, (size_t)run->batch));
    flatclip_status status =
        fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the profile of %d images", run->batch);
    if (pixels && rows) {
        timing_table table;
        fc_backend *be = &run->session->backend.base;
        wrap(&table, be, &run->model->tower);
        status = take_samples(run, &table, pixels, rows, err);
        be->ops = table.real;
    }
    free(rows);
    free(pixels);
    return status;
}
