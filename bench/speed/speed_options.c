/* Reads the command line of flatclip-bench. */
#define _GNU_SOURCE
#include "bench/speed/speed_options.h"

#include <getopt.h>

#include "bench/measure.h"
#include "engine/model.h"

int speed_usage(FILE *to, int code)
{
    fputs("usage: flatclip-bench -m MODEL [--profile] [OPTIONS]\n"
          "       flatclip-bench -m MODEL --end-to-end [OPTIONS] FILE...\n"
          "       flatclip-bench --preprocess [--resize WIDTHxHEIGHT] [OPTIONS] [FILE...]\n"
          "       flatclip-bench --gate\n"
          "\n"
          "Times encoding of ready pixels, by batch; with --profile, each stage of the forward\n"
          "pass; with --end-to-end, picture files to embeddings; with\n"
          "--preprocess, pictures to pixels on one thread. Shares are of this machine's own\n"
          "ceiling, measured in the same run. On a GPU, all is done once more with cuBLASLt's\n"
          "products, and a profile ends with cuDNN's patches and attention. --gate compares the\n"
          "matrix products with a plain loop, and fails if they are too slow for this CPU.\n"
          "\n"
          "  -m MODEL           default: $FLATCLIP_MODEL\n"
          "  --batch 1,8,32     images a call; default 1,2,4,8,16,32\n"
          "  --max-batch N      1,2,4,... up to N instead\n"
          "  --threads 1,2      default: all CPUs, together\n"
          "  --device cpu,cuda  default: auto         --precision f32,bf16,f16,int8\n"
          "  --repeats N        timed calls; default: three seconds of them, 10 to 1000\n"
          "  --json             one object            --csv FILE  the table for plots\n"
          "\n"
          "Exit codes: 0 done, 1 a picture or the gate failed, 2 wrong usage, 3 model, device or\n"
          "precision unusable\n",
          to);
    return code;
}

const char *speed_mode_name(speed_mode mode)
{
    static const char *const names[] = { "encode", "profile", "preprocess", "end-to-end", "gate" };
    return names[mode];
}

static int read_count(const char *word, long high, long *value)
{
    return read_number(word, 1, high, value);
}

static int read_batch(const char *word, long *value)
{
    return read_count(word, FLATCLIP_MAX_BATCH, value);
}

static int read_threads(const char *word, long *value)
{
    return read_count(word, FLATCLIP_MAX_THREADS, value);
}

static int read_device_name(const char *word, long *value)
{
    flatclip_device device;
    const int good = read_device(word, &device);
    *value = good ? (long)device : 0;
    return good;
}

static int read_precision(const char *word, long *value)
{
    for (flatclip_precision p = FLATCLIP_PRECISION_AUTO; p <= FLATCLIP_PRECISION_INT8; p++)
        if (strcmp(word, fc_precision_name(p)) == 0) {
            *value = (long)p;
            return 1;
        }
    return 0;
}

/* Reads "1,8,32". Returns 0 if a word is none, or there are too many. */
static int read_list(char *text, int (*read_word)(const char *, long *), speed_list *list)
{
    list->count = 0;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ","))
        if (list->count == SPEED_MAX_LIST || !read_word(word, &list->values[list->count++]))
            return 0;
    return list->count > 0;
}

/* 1, 2, 4, ... and most itself. */
static int read_max_batch(const char *text, speed_list *list)
{
    long most;
    if (!read_batch(text, &most))
        return 0;
    list->count = 0;
    for (long batch = 1; batch < most; batch *= 2)
        list->values[list->count++] = batch;
    list->values[list->count++] = most;
    return 1;
}

static int read_size(const char *text, speed_options *o)
{
    char end;
    return sscanf(text, "%ldx%ld%c", &o->width, &o->height, &end) == 2 && o->width > 0 &&
           o->height > 0 && o->width <= 65535 && o->height <= 65535;
}

static int apply(speed_options *o, int option)
{
    switch (option) {
    case 'm': o->model = optarg; return 1;
    case 'b': return read_list(optarg, read_batch, &o->batches);
    case 'B': return read_max_batch(optarg, &o->batches);
    case 't': return read_list(optarg, read_threads, &o->threads);
    case 'd': return read_list(optarg, read_device_name, &o->devices);
    case 'P': return read_list(optarg, read_precision, &o->precisions);
    case 'r': return read_count(optarg, SPEED_MAX_REPEATS, &o->repeats);
    case 's': return read_size(optarg, o);
    case 'c': o->csv = optarg; return 1;
    case 'j': o->json = 1; return 1;
    case 'p': o->mode = SPEED_PROFILE; return 1;
    case 'i': o->mode = SPEED_PREPROCESS; return 1;
    case 'e': o->mode = SPEED_END_TO_END; return 1;
    case 'g': o->mode = SPEED_GATE; return 1;
    default: return 0;
    }
}

/* Whether the mode has what it needs, and nothing that it would ignore. */
static int is_complete(const speed_options *o)
{
    const int has_input = o->width > 0 || o->file_count > 0;
    switch (o->mode) {
    case SPEED_ENCODE:
    case SPEED_PROFILE: return o->model && !has_input;
    case SPEED_PREPROCESS: return has_input;
    case SPEED_END_TO_END: return o->model && o->file_count > 0 && !o->width;
    case SPEED_GATE: return !has_input;
    }
    return 0;
}

int speed_read_options(int argc, char **argv, speed_options *o)
{
    static const struct option names[] = {
        { "model", 1, 0, 'm' },      { "batch", 1, 0, 'b' },      { "max-batch", 1, 0, 'B' },
        { "threads", 1, 0, 't' },    { "device", 1, 0, 'd' },     { "precision", 1, 0, 'P' },
        { "repeats", 1, 0, 'r' },    { "resize", 1, 0, 's' },     { "csv", 1, 0, 'c' },
        { "json", 0, 0, 'j' },       { "profile", 0, 0, 'p' },    { "preprocess", 0, 0, 'i' },
        { "end-to-end", 0, 0, 'e' }, { "gate", 0, 0, 'g' },       { 0, 0, 0, 0 },
    };
    int good = 1, option;
    *o = (speed_options){ .model = getenv("FLATCLIP_MODEL"),
                          .batches = { { 1, 2, 4, 8, 16, 32 }, 6 },
                          .threads = { { 0 }, 1 },
                          .devices = { { FLATCLIP_DEVICE_AUTO }, 1 },
                          .precisions = { { FLATCLIP_PRECISION_AUTO }, 1 } };
    while (good && (option = getopt_long(argc, argv, "m:", names, NULL)) != -1)
        good = apply(o, option);
    o->files = argv + optind;
    o->file_count = argc - optind;
    return good && is_complete(o);
}

long speed_repeats(const speed_options *options, double seconds)
{
    if (options->repeats)
        return options->repeats;
    const double fit = 3.0 / seconds;
    return fit < 10 ? 10 : fit > 1000 ? 1000 : (long)fit;
}
