/* flatclip-pixels: milliseconds from a picture to the pixels that the model sees, on one thread:
 * resizing alone, from decoded RGB of a size, and the whole way from the bytes of files.
 * Exit: 0 done, 1 a picture failed, 2 wrong usage. */
#define _GNU_SOURCE
#include <getopt.h>

#include "bench/measure.h"
#include "engine/image/preprocess.h"

enum { MAX_REPEATS = 10000, SIDE = 224 };

typedef struct {
    long width, height, repeats;
    int json;
} pixels_options;

/* One thing to time: a decoded picture, or the bytes of a file. */
typedef struct {
    flatclip_image image;
    uint8_t *bytes; /* NULL for a decoded picture */
    size_t byte_count;
} subject;

/* Prints how it is called, and returns code. */
static int usage(FILE *to, int code)
{
    fputs("usage: flatclip-pixels [--resize WIDTHxHEIGHT] [--repeats N] [--json] [FILE...]\n"
          "Times pictures to 224 x 224 pixels on one thread; the median of N repeats (20).\n",
          to);
    return code;
}

static int read_size(const char *text, pixels_options *o)
{
    char end;
    return sscanf(text, "%ldx%ld%c", &o->width, &o->height, &end) == 2 && o->width > 0 &&
           o->height > 0 && o->width <= 65535 && o->height <= 65535;
}

static int read_options(int argc, char **argv, pixels_options *o)
{
    static const struct option names[] = {
        { "resize", 1, 0, 's' }, { "repeats", 1, 0, 'r' }, { "json", 0, 0, 'j' }, { 0, 0, 0, 0 },
    };
    int good = 1, option;
    *o = (pixels_options){ .repeats = 20 };
    while (good && (option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 's': good = read_size(optarg, o); break;
        case 'r': good = read_number(optarg, 1, MAX_REPEATS, &o->repeats); break;
        case 'j': o->json = 1; break;
        default: good = 0;
        }
    }
    return good && (o->width || optind < argc);
}

/* Median milliseconds, or -1 with *err. */
static double time_subject(const subject *s, const fc_preprocess_options *options,
                           fc_preprocess_scratch *scratch, long repeats, flatclip_error *err)
{
    static uint8_t out[SIDE * SIDE * 3];
    double times[MAX_REPEATS];
    for (long i = -1; i < repeats; i++) {
        const double start = seconds_now();
        const flatclip_status status =
            s->bytes ? fc_preprocess_bytes(options, scratch, s->bytes, s->byte_count, out, err)
                     : fc_preprocess_image(options, scratch, &s->image, out, err);
        if (status != FLATCLIP_OK)
            return -1;
        if (i >= 0)
            times[i] = 1e3 * (seconds_now() - start);
    }
    return sort_for_median(times, (size_t)repeats);
}

/* Times one subject and prints its line. Returns 0 if it failed. */
static int report(const char *name, const subject *s, const pixels_options *o)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    fc_preprocess_options options = { SIDE, FLATCLIP_RECIPE_OPENAI, 0, FC_DEFAULT_MAX_PIXELS,
                                      FC_ISA_PORTABLE };
    if (fc_isa_choose(&options.isa, &err) != FLATCLIP_OK) {
        fprintf(stderr, "flatclip-pixels: %s\n", err.message);
        return 0;
    }
    fc_preprocess_scratch scratch;
    fc_arena measured = { .base = NULL, .kind = FLATCLIP_REGION_WORKSPACE };
    fc_preprocess_layout(&scratch, &measured, &options);
    void *block = fc_block_alloc(measured.used);
    if (!block) {
        fputs("flatclip-pixels: no memory\n", stderr);
        return 0;
    }
    fc_arena placed = { .base = block, .kind = FLATCLIP_REGION_WORKSPACE };
    fc_preprocess_layout(&scratch, &placed, &options);
    const double ms = time_subject(s, &options, &scratch, o->repeats, &err);
    fc_block_free(block);
    if (ms < 0)
        fprintf(stderr, "flatclip-pixels: %s: %s\n", name, err.message);
    else if (o->json)
        printf("{\"what\": \"%s\", \"isa\": \"%s\", \"ms\": %.4f}\n", name,
               fc_isa_name(options.isa), ms);
    else
        printf("%10.2f ms  %-9s %s\n", ms, fc_isa_name(options.isa), name);
    return ms >= 0;
}

static int report_resize(const pixels_options *o)
{
    const size_t bytes = (size_t)o->width * (size_t)o->height * 3;
    uint8_t *pixels = malloc(bytes);
    if (!pixels) {
        fputs("flatclip-pixels: no memory for the picture\n", stderr);
        return 0;
    }
    uint64_t random = 1;
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)random_next(&random);
    const subject s = { { pixels, (int)o->width, (int)o->height, 0 }, NULL, 0 };
    const int good = report("resize", &s, o);
    free(pixels);
    return good;
}

static int report_file(const char *path, const pixels_options *o)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        if (file)
            fclose(file);
        return 0;
    }
    const long size = ftell(file);
    rewind(file);
    subject s = { .bytes = malloc((size_t)size + 1), .byte_count = (size_t)size };
    const int good = s.bytes && fread(s.bytes, 1, s.byte_count, file) == s.byte_count &&
                     report(path, &s, o);
    free(s.bytes);
    fclose(file);
    return good;
}

int main(int argc, char **argv)
{
    pixels_options options;
    if (asks_for_help(argc, argv))
        return usage(stdout, 0);
    if (!read_options(argc, argv, &options))
        return usage(stderr, 2);
    int good = 1;
    if (options.width)
        good &= report_resize(&options);
    for (int i = optind; i < argc; i++)
        good &= report_file(argv[i], &options);
    return good ? 0 : 1;
}
