/* flatclip-stress: encodes batches of random size, ready pixels and real files good and bad, and
 * watches the process. After a warm-up, the first byte of growth of the heap or of the engine, or
 * one more descriptor or thread, is a failure that names the iteration and the number. Exit: 0
 * flat, 1 something grew, 2 wrong usage, 3 model or session unusable. */
#define _GNU_SOURCE
#include <ftw.h>
#include <getopt.h>

#include "bench/measure.h"

enum {
    MAX_FILES = 4096,
    RESIDENT_SLACK = 4 << 20 /* bytes: the kernel and the C library keep freed pages for a while */
};

typedef struct {
    const char *model, *images;
    long iterations, minutes, batch, threads, seed;
    flatclip_device device;
} stress_options;

typedef struct {
    flatclip_model *model;
    flatclip_session *session;
    size_t max_count; /* images in one call: twice max_batch, so that calls are split too */
    uint8_t *pixels;  /* [max_count, S, S, 3] */
    float *rows;      /* [max_count, D] */
    flatclip_error *items;
    const char **paths; /* of one call */
    uint64_t random;
    size_t images, refused; /* so far */
} stress_run;

static char *files[MAX_FILES]; /* every file below --images; nftw has no user pointer */
static size_t file_count;

static int add_file(const char *path, const struct stat *info, int kind, struct FTW *position)
{
    (void)info;
    (void)position;
    if (kind == FTW_F && file_count < MAX_FILES)
        files[file_count++] = strdup(path);
    return 0;
}

/* Prints how it is called, and returns code. */
static int usage(FILE *to, int code)
{
    fputs(
        "usage: flatclip-stress -m MODEL [--iterations N | --minutes M] [--batch N] [--threads N]\n"
        "                       [--device auto|cpu|cuda] [--seed S] [--images DIR]\n"
        "Encodes at random batch sizes up to twice --batch (8) and fails at the first growth.\n",
        to);
    return code;
}

static int read_options(int argc, char **argv, stress_options *o)
{
    static const struct option names[] = {
        { "model", 1, 0, 'm' }, { "iterations", 1, 0, 'i' }, { "minutes", 1, 0, 'M' },
        { "batch", 1, 0, 'b' }, { "threads", 1, 0, 't' },    { "device", 1, 0, 'd' },
        { "seed", 1, 0, 's' },  { "images", 1, 0, 'I' },     { 0, 0, 0, 0 },
    };
    int good = 1, option;
    *o = (stress_options){
        .images = "tests/data/images", .iterations = 1000, .batch = 8, .seed = 1
    };
    while (good && (option = getopt_long(argc, argv, "m:", names, NULL)) != -1) {
        switch (option) {
        case 'm': o->model = optarg; break;
        case 'I': o->images = optarg; break;
        case 'i': good = read_number(optarg, 1, 1000000000, &o->iterations); break;
        case 'M': good = read_number(optarg, 1, 100000, &o->minutes); break;
        case 'b': good = read_number(optarg, 1, 1024, &o->batch); break;
        case 't': good = read_number(optarg, 0, 256, &o->threads); break;
        case 's': good = read_number(optarg, 1, 2000000000, &o->seed); break;
        case 'd': good = read_device(optarg, &o->device); break;
        default: good = 0;
        }
    }
    return good && o->model && optind == argc;
}

/* Takes everything that the run will ever need. Returns 0 with a message if it cannot. */
static int prepare(const stress_options *o, stress_run *run)
{
    flatclip_error err = { FLATCLIP_OK, "no memory" };
    flatclip_model_options model_options = FLATCLIP_MODEL_OPTIONS_INIT;
    flatclip_session_options session_options = FLATCLIP_SESSION_OPTIONS_INIT;
    model_options.device = o->device;
    session_options.max_batch = (int)o->batch;
    session_options.threads = (int)o->threads;
    if (flatclip_model_load(o->model, &model_options, &run->model, &err) != FLATCLIP_OK ||
        flatclip_session_create(run->model, &session_options, &run->session, &err) != FLATCLIP_OK) {
        fprintf(stderr, "flatclip-stress: %s\n", err.message);
        return 0;
    }
    const size_t side = (size_t)flatclip_model_image_size(run->model), picture = side * side * 3;
    run->max_count = 2 * (size_t)o->batch;
    run->random = (uint64_t)o->seed;
    run->pixels = malloc(run->max_count * picture);
    run->rows =
        malloc(run->max_count * (size_t)flatclip_model_embed_dim(run->model) * sizeof(float));
    run->items = malloc(run->max_count * sizeof *run->items);
    run->paths = malloc(run->max_count * sizeof *run->paths);
    if (!run->pixels || !run->rows || !run->items || !run->paths) {
        fprintf(stderr, "flatclip-stress: %s\n", err.message);
        return 0;
    }
    for (size_t i = 0; i < run->max_count * picture; i++)
        run->pixels[i] = (uint8_t)random_next(&run->random);
    nftw(o->images, add_file, 16, FTW_PHYS);
    return 1;
}

static void finish(stress_run *run)
{
    flatclip_session_free(run->session);
    flatclip_model_free(run->model);
    free(run->pixels);
    free(run->rows);
    free(run->items);
    free(run->paths);
    while (file_count > 0)
        free(files[--file_count]);
}

/* One call of random kind and size. Returns 0 if the whole call failed. */
static int encode_once(stress_run *run)
{
    flatclip_error err;
    flatclip_status status;
    const size_t count = 1 + random_next(&run->random) % run->max_count;
    if (file_count > 0 && random_next(&run->random) % 2) {
        for (size_t i = 0; i < count; i++)
            run->paths[i] = files[random_next(&run->random) % file_count];
        status =
            flatclip_encode_files(run->session, run->paths, count, run->rows, run->items, &err);
    } else {
        status = flatclip_encode_pixels_u8(run->session, run->pixels, count, run->rows, run->items,
                                           &err);
    }
    if (status != FLATCLIP_OK && status != FLATCLIP_ERR_ITEMS) {
        printf("FAIL: %s\n", err.message);
        return 0;
    }
    run->images += count;
    for (size_t i = 0; i < count; i++)
        run->refused += run->items[i].status != FLATCLIP_OK;
    return 1;
}

/* Says which number grew beyond what the warm-up reached; returns whether none did. */
static int is_flat(long iteration, const measurement *now, const measurement *limit)
{
    const struct {
        const char *name;
        size_t now, limit;
    } checks[] = {
        { "engine bytes", now->engine, limit->engine },
        { "heap bytes in use", now->heap, limit->heap },
        { "resident bytes", now->resident, limit->resident + RESIDENT_SLACK },
        { "open descriptors", (size_t)now->descriptors, (size_t)limit->descriptors },
        { "threads", (size_t)now->threads, (size_t)limit->threads },
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].now > checks[i].limit) {
            printf("FAIL: iteration %ld: %s grew from %zu to %zu (by %zu)\n", iteration,
                   checks[i].name, checks[i].limit, checks[i].now, checks[i].now - checks[i].limit);
            return 0;
        }
    return 1;
}

/* Every file once and every kind of call, so that the libraries below have taken what they keep. */
static int warm_up(stress_run *run, measurement *limit)
{
    size_t highest = 0;
    for (size_t i = 0; i < file_count; i += run->max_count) {
        const size_t count = file_count - i < run->max_count ? file_count - i : run->max_count;
        for (size_t k = 0; k < count; k++)
            run->paths[k] = files[i + k];
        flatclip_encode_files(run->session, run->paths, count, run->rows, NULL, NULL);
    }
    for (int i = 0; i < 20; i++) {
        if (!encode_once(run))
            return 0;
        const size_t resident = resident_bytes();
        highest = resident > highest ? resident : highest;
    }
    run->images = run->refused = 0;
    *limit = measure(run->session);
    limit->resident = highest > limit->resident ? highest : limit->resident;
    return 1;
}

static int stress(const stress_options *o, stress_run *run)
{
    measurement limit, now = { 0 };
    if (!warm_up(run, &limit))
        return 1;
    const double start = seconds_now();
    long done = 0;
    while (o->minutes ? seconds_now() - start < 60.0 * (double)o->minutes : done < o->iterations) {
        if (!encode_once(run))
            return 1;
        now = measure(run->session);
        if (!is_flat(++done, &now, &limit))
            return 1;
    }
    printf("PASS: %ld iterations, %zu images (%zu refused), %.1f s: engine %zu B, heap %zu B, "
           "%d descriptors, %d threads: flat; resident %.1f MiB (%+.1f, allowed %+.1f)\n",
           done, run->images, run->refused, seconds_now() - start, now.engine, now.heap,
           now.descriptors, now.threads, mebibytes(now.resident),
           mebibytes(now.resident) - mebibytes(limit.resident), mebibytes(RESIDENT_SLACK));
    return 0;
}

int main(int argc, char **argv)
{
    static char buffer[4096]; /* so that printing takes nothing from the heap either */
    stress_options options;
    stress_run run = { 0 };
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    measure_exactly(argv);
    if (asks_for_help(argc, argv))
        return usage(stdout, 0);
    if (!read_options(argc, argv, &options))
        return usage(stderr, 2);
    if (!prepare(&options, &run)) {
        finish(&run);
        return 3;
    }
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    flatclip_model_describe(run.model, &info);
    printf("flatclip-stress: %s, max_batch %ld, %zu files, seed %ld\n", info.backend, options.batch,
           file_count, options.seed);
    const int result = stress(&options, &run);
    finish(&run);
    return result;
}
