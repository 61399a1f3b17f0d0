/* flatclip-bench: latency and images a second on ready pixels, so that nothing but the forward pass
 * is timed. Exit: 0 done, 2 wrong usage, 3 model or session unusable. */
#define _GNU_SOURCE
#include <getopt.h>

#include "bench/measure.h"

enum { MAX_BATCHES = 16, MAX_REPEATS = 10000, WARM_UPS = 2 };

typedef struct {
    const char *model;
    long batches[MAX_BATCHES], batch_count, threads, repeats;
    flatclip_device device;
    int json;
} bench_options;

typedef struct {
    long batch;
    double median, p95;  /* seconds a call */
    size_t engine_bytes; /* weights included */
} bench_result;

/* Prints how it is called, and returns code. */
static int usage(FILE *to, int code)
{
    fputs("usage: flatclip-bench -m MODEL [--batch 1,8,32] [--threads N] [--repeats N]\n"
          "                      [--device auto|cpu|cuda] [--json]\n"
          "Times encoding of ready pixels, after a warm-up; one session a batch size.\n",
          to);
    return code;
}

/* Reads "1,8,32". Returns 0 if it is not such a list. */
static int read_batches(char *list, bench_options *o)
{
    o->batch_count = 0;
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ","))
        if (o->batch_count == MAX_BATCHES ||
            !read_number(word, 1, 1024, &o->batches[o->batch_count++]))
            return 0;
    return o->batch_count > 0;
}

static int read_options(int argc, char **argv, bench_options *o)
{
    static const struct option names[] = {
        { "model", 1, 0, 'm' },   { "batch", 1, 0, 'b' },  { "threads", 1, 0, 't' },
        { "repeats", 1, 0, 'r' }, { "device", 1, 0, 'd' }, { "json", 0, 0, 'j' },
        { 0, 0, 0, 0 },
    };
    int good = 1, option;
    *o = (bench_options){ .batches = { 1, 8, 32 }, .batch_count = 3, .repeats = 10 };
    while (good && (option = getopt_long(argc, argv, "m:", names, NULL)) != -1) {
        switch (option) {
        case 'm': o->model = optarg; break;
        case 'b': good = read_batches(optarg, o); break;
        case 't': good = read_number(optarg, 0, 256, &o->threads); break;
        case 'r': good = read_number(optarg, 1, MAX_REPEATS, &o->repeats); break;
        case 'd': good = read_device(optarg, &o->device); break;
        case 'j': o->json = 1; break;
        default: good = 0;
        }
    }
    return good && o->model && optind == argc;
}

/* Times repeats calls with batch images each; times holds as many. */
static flatclip_status time_calls(flatclip_session *session, const uint8_t *pixels, long batch,
                                  long repeats, float *rows, double *times, flatclip_error *err)
{
    for (long i = -WARM_UPS; i < repeats; i++) {
        const double start = seconds_now();
        const flatclip_status status =
            flatclip_encode_pixels_u8(session, pixels, (size_t)batch, rows, NULL, err);
        if (status != FLATCLIP_OK)
            return status;
        if (i >= 0)
            times[i] = seconds_now() - start;
    }
    return FLATCLIP_OK;
}

/* Measures one batch size with a session of its own. */
static flatclip_status measure_batch(const flatclip_model *model, const bench_options *o,
                                     long batch, bench_result *result, flatclip_error *err)
{
    const size_t side = (size_t)flatclip_model_image_size(model),
                 bytes = side * side * 3 * (size_t)batch;
    uint8_t *pixels = malloc(bytes);
    float *rows = malloc((size_t)batch * (size_t)flatclip_model_embed_dim(model) * sizeof *rows);
    double *times = malloc((size_t)o->repeats * sizeof *times);
    flatclip_session *session = NULL;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = (int)batch;
    options.threads = (int)o->threads;
    flatclip_status status = FLATCLIP_ERR_MEMORY;
    snprintf(err->message, sizeof err->message, "no memory for %ld pictures", batch);
    if (pixels && rows && times) {
        uint64_t random = 1;
        for (size_t i = 0; i < bytes; i++)
            pixels[i] = (uint8_t)random_next(&random);
        status = flatclip_session_create(model, &options, &session, err);
    }
    if (status == FLATCLIP_OK)
        status = time_calls(session, pixels, batch, o->repeats, rows, times, err);
    if (status == FLATCLIP_OK) {
        flatclip_memory memory = FLATCLIP_MEMORY_INIT;
        flatclip_session_memory(session, &memory);
        const double median = sort_for_median(times, (size_t)o->repeats);
        *result = (bench_result){ batch, median, times[(o->repeats * 95 - 1) / 100],
                                  memory.total };
    }
    flatclip_session_free(session);
    free(times);
    free(rows);
    free(pixels);
    return status;
}

static void print_table(const char *backend, const bench_result *results, long count)
{
    printf("flatclip-bench: %s, ready pixels\n", backend);
    printf("%6s %12s %12s %12s %12s\n", "batch", "median ms", "p95 ms", "images/s", "memory MiB");
    for (long i = 0; i < count; i++)
        printf("%6ld %12.2f %12.2f %12.2f %12.1f\n", results[i].batch, 1e3 * results[i].median,
               1e3 * results[i].p95, (double)results[i].batch / results[i].median,
               mebibytes(results[i].engine_bytes));
}

static void print_json(const char *backend, const bench_options *o, const bench_result *results)
{
    printf("{\"backend\": \"%s\", \"threads\": %ld, \"repeats\": %ld, \"results\": [", backend,
           o->threads, o->repeats);
    for (long i = 0; i < o->batch_count; i++)
        printf("%s{\"batch\": %ld, \"median_ms\": %.4f, \"p95_ms\": %.4f, \"images_per_second\": "
               "%.4f, "
               "\"engine_bytes\": %zu}",
               i ? ", " : "", results[i].batch, 1e3 * results[i].median, 1e3 * results[i].p95,
               (double)results[i].batch / results[i].median, results[i].engine_bytes);
    puts("]}");
}

int main(int argc, char **argv)
{
    bench_options options;
    bench_result results[MAX_BATCHES];
    flatclip_model *model = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model_options model_options = FLATCLIP_MODEL_OPTIONS_INIT;
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    if (asks_for_help(argc, argv))
        return usage(stdout, 0);
    if (!read_options(argc, argv, &options))
        return usage(stderr, 2);
    model_options.device = options.device;
    flatclip_status status = flatclip_model_load(options.model, &model_options, &model, &err);
    for (long i = 0; status == FLATCLIP_OK && i < options.batch_count; i++)
        status = measure_batch(model, &options, options.batches[i], &results[i], &err);
    if (status != FLATCLIP_OK) {
        fprintf(stderr, "flatclip-bench: %s\n", err.message);
        flatclip_model_free(model);
        return 3;
    }
    flatclip_model_describe(model, &info);
    if (options.json)
        print_json(info.backend, &options, results);
    else
        print_table(info.backend, results, options.batch_count);
    flatclip_model_free(model);
    return 0;
}
