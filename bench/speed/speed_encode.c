/* Times whole encode calls. */
#define _GNU_SOURCE
#include "bench/speed/speed_encode.h"

#include <math.h>

#include "bench/measure.h"
#include "bench/speed/speed_work.h"

enum { WARM_UPS = 2, BATCHES_OF_FILES = 4, MOST_FILES = 1024 };

uint8_t *speed_noise(const flatclip_model *model, int count)
{
    const size_t side = (size_t)flatclip_model_image_size(model);
    return new_noise((size_t)count * side * side * 3);
}

size_t speed_row_bytes(const flatclip_model *model, size_t count)
{
    return count * (size_t)flatclip_model_embed_dim(model) * sizeof(float);
}

static flatclip_status no_memory(flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the measurement");
}

typedef struct {
    long count;
    double *seconds; /* [SPEED_MAX_REPEATS] a call, sorted in the end */
    double *share;   /* [SPEED_MAX_REPEATS] of the ceiling beside it */
    double *ceiling; /* [SPEED_MAX_REPEATS] FLOP a second, or NAN */
} speed_samples;

/* Calls, each behind a burst of the ceiling: the two see the same machine. */
static flatclip_status take_samples(speed_run *run, const uint8_t *pixels, float *rows,
                                    speed_samples *s, flatclip_error *err)
{
    const double work = speed_forward_flop(&run->info, run->batch);
    for (long i = -WARM_UPS; i < 0 || i < s->count; i++) {
        const double ceiling = speed_ceiling_flops(&run->ceiling);
        const double start = seconds_now();
        const flatclip_status status = flatclip_encode_pixels_u8(
            run->session, pixels, (size_t)run->batch, rows, NULL, err);
        const double seconds = seconds_now() - start;
        if (status != FLATCLIP_OK)
            return status;
        if (i == -1)
            s->count = speed_repeats(run->options, seconds);
        if (i < 0 || i >= s->count)
            continue;
        s->seconds[i] = seconds;
        s->ceiling[i] = ceiling;
        s->share[i] = work / seconds / ceiling;
    }
    return FLATCLIP_OK;
}

/* The value that p of all samples don't exceed, in ms. */
static double percentile(const speed_samples *s, double p)
{
    const long rank = (long)ceil(p * (double)s->count) - 1;
    return 1e3 * s->seconds[rank < 0 ? 0 : rank];
}

static void report_encode(const speed_run *run, const speed_samples *s)
{
    flatclip_memory memory = FLATCLIP_MEMORY_INIT;
    flatclip_session_memory(run->session, &memory);
    const size_t count = (size_t)s->count;
    const double median = sort_for_median(s->seconds, count), batch = run->batch;
    const double ceiling = sort_for_median(s->ceiling, count);
    const double share = sort_for_median(s->share, count);
    const speed_cell cells[] = {
        { "device", run->device, 0, 0, 1 },
        { "backend", run->info.backend, 0, 0, 1 },
        { "precision", run->precision, 0, 0, 1 },
        { "threads", NULL, run->threads, 0, 1 },
        { "batch", NULL, batch, 0, 0 },
        { "repeats", NULL, (double)s->count, 0, 0 },
        { "median_ms", NULL, 1e3 * median, 3, 0 },
        { "p50_ms", NULL, percentile(s, 0.50), 3, 1 },
        { "p95_ms", NULL, percentile(s, 0.95), 3, 0 },
        { "p99_ms", NULL, percentile(s, 0.99), 3, 0 },
        { "images_per_s", NULL, batch / median, 2, 0 },
        { "gflops", NULL, speed_forward_flop(&run->info, run->batch) / median / 1e9, 1, 0 },
        { "ceiling_gflops", NULL, ceiling / 1e9, 1, 0 },
        { "share", NULL, share, 3, 0 },
        { "weights_gbs", NULL, (double)memory.weights / median / 1e9, 2, 0 },
        { "stream_gbs", NULL, run->ceiling.stream / 1e9, 2, 0 },
        { "engine_bytes", NULL, (double)memory.total, 0, 1 },
        { "device_bytes", NULL, (double)memory.device, 0, 1 },
    };
    speed_report_row(run->report, cells, sizeof cells / sizeof *cells);
}

flatclip_status speed_encode(speed_run *run, flatclip_error *err)
{
    double *numbers = malloc(3 * (size_t)SPEED_MAX_REPEATS * sizeof *numbers);
    uint8_t *pixels = speed_noise(run->model, run->batch);
    float *rows = malloc(speed_row_bytes(run->model, (size_t)run->batch));
    flatclip_status status = FLATCLIP_OK;
    if (!numbers || !pixels || !rows) {
        status = no_memory(err);
    } else {
        speed_samples s = { 0, numbers, numbers + SPEED_MAX_REPEATS,
                            numbers + 2 * SPEED_MAX_REPEATS };
        status = take_samples(run, pixels, rows, &s, err);
        if (status == FLATCLIP_OK)
            report_encode(run, &s);
    }
    free(rows);
    free(pixels);
    free(numbers);
    return status;
}

/* -- Files to embeddings ----------------------------------------------------------------------- */

/* The files over and over, so that several batches are full. */
static int repeat_files(const speed_options *o, int batch, const char **paths)
{
    const int count = batch * BATCHES_OF_FILES < o->file_count ? o->file_count
                                                                : batch * BATCHES_OF_FILES;
    for (int i = 0; i < count && i < MOST_FILES; i++)
        paths[i] = o->files[i % o->file_count];
    return count < MOST_FILES ? count : MOST_FILES;
}

/* Median seconds of files and of as many ready pixels, in turns. */
static flatclip_status time_files(speed_run *run, const char **paths, int count,
                                  const uint8_t *pixels, float *rows, double medians[2],
                                  flatclip_error *err)
{
    double *times = malloc(2 * (size_t)SPEED_MAX_REPEATS * sizeof *times);
    long repeats = 1;
    flatclip_status status = times ? FLATCLIP_OK : no_memory(err);
    for (long i = -1; status == FLATCLIP_OK && i < repeats; i++) {
        const double start = seconds_now();
        status = flatclip_encode_files(run->session, paths, (size_t)count, rows, NULL, err);
        const double middle = seconds_now();
        if (status == FLATCLIP_OK)
            status = flatclip_encode_pixels_u8(run->session, pixels, (size_t)count, rows, NULL,
                                               err);
        const double end = seconds_now();
        if (i < 0) {
            repeats = speed_repeats(run->options, end - start);
            continue;
        }
        times[i] = middle - start;
        times[SPEED_MAX_REPEATS + i] = end - middle;
    }
    for (int k = 0; status == FLATCLIP_OK && k < 2; k++)
        medians[k] = sort_for_median(times + k * SPEED_MAX_REPEATS, (size_t)repeats);
    free(times);
    return status;
}

flatclip_status speed_end_to_end(speed_run *run, flatclip_error *err)
{
    static const char *paths[MOST_FILES];
    const int count = repeat_files(run->options, run->batch, paths);
    uint8_t *pixels = speed_noise(run->model, count);
    float *rows = malloc(speed_row_bytes(run->model, (size_t)count));
    double medians[2];
    flatclip_status status =
        pixels && rows ? time_files(run, paths, count, pixels, rows, medians, err)
                       : no_memory(err);
    if (status == FLATCLIP_OK) {
        const speed_cell cells[] = {
            { "device", run->device, 0, 0, 1 },
            { "backend", run->info.backend, 0, 0, 1 },
            { "precision", run->precision, 0, 0, 1 },
            { "threads", NULL, run->threads, 0, 1 },
            { "batch", NULL, run->batch, 0, 0 },
            { "files", NULL, count, 0, 0 },
            { "files_per_s", NULL, count / medians[0], 2, 0 },
            { "ready_per_s", NULL, count / medians[1], 2, 0 },
            { "share", NULL, medians[1] / medians[0], 3, 0 },
        };
        speed_report_row(run->report, cells, sizeof cells / sizeof *cells);
    }
    free(rows);
    free(pixels);
    return status;
}
