/* Times preprocessing. */
#define _GNU_SOURCE
#include "bench/speed/speed_pictures.h"

#include "bench/measure.h"
#include "engine/image/preprocess.h"

enum { SIDE = 224 };

typedef struct {
    const speed_options *options;
    speed_report *report;
    fc_preprocess_options preprocess;
    fc_preprocess_scratch scratch;
    void *block;
    double *times; /* [SPEED_MAX_REPEATS] */
} picture_timer;

/* One thing to time: a decoded picture, or the bytes of a file. */
typedef struct {
    const char *name;
    flatclip_image image;
    uint8_t *bytes; /* NULL for a decoded picture */
    size_t byte_count;
} picture;

static flatclip_status open_timer(picture_timer *timer, flatclip_error *err)
{
    fc_arena measured = { .kind = FLATCLIP_REGION_WORKSPACE };
    timer->preprocess = (fc_preprocess_options){ SIDE, FLATCLIP_RECIPE_OPENAI, 0,
                                                 FC_DEFAULT_MAX_PIXELS, FC_ISA_PORTABLE };
    const flatclip_status status = fc_isa_choose(&timer->preprocess.isa, err);
    if (status != FLATCLIP_OK)
        return status;
    fc_preprocess_layout(&timer->scratch, &measured, &timer->preprocess);
    timer->block = fc_block_alloc(measured.used);
    timer->times = malloc(SPEED_MAX_REPEATS * sizeof *timer->times);
    if (!timer->block || !timer->times)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the scratch of preprocessing");
    fc_arena placed = { .base = timer->block, .kind = FLATCLIP_REGION_WORKSPACE };
    fc_preprocess_layout(&timer->scratch, &placed, &timer->preprocess);
    return FLATCLIP_OK;
}

/* Leaves sorted times; returns their count, or 0 if the picture fails. */
static long time_picture(picture_timer *timer, const picture *p)
{
    static uint8_t out[SIDE * SIDE * 3];
    flatclip_error err;
    long repeats = 1;
    for (long i = -1; i < repeats; i++) {
        const double start = seconds_now();
        const flatclip_status status =
            p->bytes ? fc_preprocess_bytes(&timer->preprocess, &timer->scratch, p->bytes,
                                           p->byte_count, out, &err)
                     : fc_preprocess_image(&timer->preprocess, &timer->scratch, &p->image, out,
                                           &err);
        const double seconds = seconds_now() - start;
        if (status != FLATCLIP_OK) {
            fprintf(stderr, "flatclip-bench: %s: %s\n", p->name, err.message);
            return 0;
        }
        if (i < 0)
            repeats = speed_repeats(timer->options, seconds);
        else
            timer->times[i] = seconds;
    }
    return repeats;
}

/* One row. Returns whether the picture was good. */
static int report_picture(picture_timer *timer, const picture *p)
{
    const long count = time_picture(timer, p);
    if (count == 0)
        return 0;
    const double median = sort_for_median(timer->times, (size_t)count);
    const speed_cell cells[] = {
        { "isa", fc_isa_name(timer->preprocess.isa), 0, 0, 0 },
        { "repeats", NULL, (double)count, 0, 0 },
        { "median_ms", NULL, 1e3 * median, 4, 0 },
        { "p95_ms", NULL, 1e3 * timer->times[(count * 95 - 1) / 100], 4, 0 },
        { "images_per_s", NULL, 1 / median, 1, 0 },
        { "picture", p->name, 0, 0, 0 },
    };
    speed_report_row(timer->report, cells, sizeof cells / sizeof *cells);
    return 1;
}

static int resize_noise(picture_timer *timer)
{
    const speed_options *o = timer->options;
    uint8_t *pixels = new_noise((size_t)o->width * (size_t)o->height * 3);
    if (!pixels) {
        fputs("flatclip-bench: no memory for the picture\n", stderr);
        return 0;
    }
    const picture p = { "resize", { pixels, (int)o->width, (int)o->height, 0 }, NULL, 0 };
    const int good = report_picture(timer, &p);
    free(pixels);
    return good;
}

static int time_file(picture_timer *timer, const char *path)
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
    picture p = { .name = path, .bytes = malloc((size_t)size + 1), .byte_count = (size_t)size };
    const int good = p.bytes && fread(p.bytes, 1, p.byte_count, file) == p.byte_count &&
                     report_picture(timer, &p);
    free(p.bytes);
    fclose(file);
    return good;
}

int speed_pictures(const speed_options *options, speed_report *report, flatclip_error *err)
{
    picture_timer timer = { .options = options, .report = report };
    int failed = open_timer(&timer, err) == FLATCLIP_OK ? 0 : -1;
    if (failed == 0 && options->width)
        failed += !resize_noise(&timer);
    for (int i = 0; failed >= 0 && i < options->file_count; i++)
        failed += !time_file(&timer, options->files[i]);
    free(timer.times);
    fc_block_free(timer.block);
    return failed;
}
