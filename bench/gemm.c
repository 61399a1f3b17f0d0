/* flatclip-gemm: how much of the linear layers' own speed the whole forward pass reaches. Times the
 * linear layers of a model one after the other, on its own weights, and then the forward pass, in
 * turns in one process, and prints both rates and their ratio: the share that is left after
 * LayerNorm, attention, activations and threads. Exit: 0 done, 2 wrong usage, 3 model unusable. */
#define _GNU_SOURCE
#include <getopt.h>

#include "bench/measure.h"
#include "engine/session.h"

enum { MAX_REPEATS = 1000, BATCHES = 3 };

typedef struct {
    const char *model;
    long threads, repeats;
} gemm_options;

/* Prints how it is called, and returns code. */
static int usage(FILE *to, int code)
{
    fputs("usage: flatclip-gemm -m MODEL [--threads N] [--repeats N]\n"
          "Compares the rate of the linear layers alone with that of the forward pass.\n",
          to);
    return code;
}

static int read_options(int argc, char **argv, gemm_options *o)
{
    static const struct option names[] = {
        { "model", 1, 0, 'm' }, { "threads", 1, 0, 't' }, { "repeats", 1, 0, 'r' }, { 0, 0, 0, 0 },
    };
    int good = 1, option;
    *o = (gemm_options){ .threads = 1, .repeats = 7 };
    while (good && (option = getopt_long(argc, argv, "m:", names, NULL)) != -1) {
        switch (option) {
        case 'm': o->model = optarg; break;
        case 't': good = read_number(optarg, 1, 256, &o->threads); break;
        case 'r': good = read_number(optarg, 1, MAX_REPEATS, &o->repeats); break;
        default: good = 0;
        }
    }
    return good && o->model && optind == argc;
}

static double linear_flop(const fc_linear *w, int rows)
{
    return 2.0 * rows * w->in * w->out;
}

/* Every block's four layers, without what is fused into them. Returns the floating-point
 * operations. */
static double run_layers(flatclip_session *session, int batch)
{
    const fc_tower *tower = &session->model->tower;
    const fc_workspace *ws = &session->ws;
    fc_backend *be = &session->backend.base;
    const int rows = batch * tower->seq;
    double flop = 0;
    for (int i = 0; i < tower->layers; i++) {
        const fc_block *w = &tower->block[i];
        fc_linear_rows(be, ws->qkv, ws->h, &w->qkv, rows, FC_PLAIN);
        fc_linear_rows(be, ws->x, ws->h, &w->out, rows, FC_PLAIN);
        fc_linear_rows(be, ws->mlp, ws->h, &w->fc1, rows, FC_PLAIN);
        fc_linear_rows(be, ws->x, ws->mlp, &w->fc2, rows, FC_PLAIN);
        flop += linear_flop(&w->qkv, rows) + linear_flop(&w->out, rows) +
                linear_flop(&w->fc1, rows) + linear_flop(&w->fc2, rows);
    }
    return flop;
}

/* Floating-point operations of a forward pass, the last block's for one row an image where that is
 * all that is computed (engine/tower.c). */
static double forward_flop(const fc_tower *t, int batch)
{
    const int rows = batch * t->seq;
    const fc_block *w = &t->block[0];
    const double attention = 4.0 * rows * t->seq * t->width;
    const double block = linear_flop(&w->qkv, rows) + linear_flop(&w->out, rows) +
                         linear_flop(&w->fc1, rows) + linear_flop(&w->fc2, rows) + attention;
    const double last = linear_flop(&w->kv, rows) + linear_flop(&w->q, batch) +
                        linear_flop(&w->out, batch) + linear_flop(&w->fc1, batch) +
                        linear_flop(&w->fc2, batch) + attention / t->seq;
    return linear_flop(&t->patch, rows - batch) + (t->layers - 1) * block + last +
           linear_flop(&t->proj, batch);
}

/* Times layers and forward passes in turns; prints one line. */
static flatclip_status compare(flatclip_session *session, int batch, long repeats,
                               const uint8_t *pixels, float *rows, flatclip_error *err)
{
    double layers[MAX_REPEATS], forward[MAX_REPEATS], share[MAX_REPEATS];
    const double work = forward_flop(&session->model->tower, batch);
    for (long i = -1; i < repeats; i++) {
        double start = seconds_now();
        const double flop = run_layers(session, batch);
        const double gemm = flop / (seconds_now() - start) / 1e9;
        start = seconds_now();
        const flatclip_status status =
            flatclip_encode_pixels_u8(session, pixels, (size_t)batch, rows, NULL, err);
        if (status != FLATCLIP_OK)
            return status;
        if (i < 0)
            continue; /* warm-up */
        layers[i] = gemm;
        forward[i] = work / (seconds_now() - start) / 1e9;
        share[i] = forward[i] / gemm;
    }
    const double a = sort_for_median(layers, (size_t)repeats);
    const double b = sort_for_median(forward, (size_t)repeats);
    printf("%6d %18.1f %18.1f %10.0f%%\n", batch, a, b,
           100 * sort_for_median(share, (size_t)repeats));
    return FLATCLIP_OK;
}

static flatclip_status run(const gemm_options *o, flatclip_model *model, flatclip_session *session,
                           flatclip_error *err)
{
    static const int batches[BATCHES] = { 1, 8, 32 };
    const size_t side = (size_t)flatclip_model_image_size(model);
    const size_t most = (size_t)batches[BATCHES - 1];
    uint8_t *pixels = malloc(most * side * side * 3);
    float *rows = malloc(most * (size_t)flatclip_model_embed_dim(model) * sizeof *rows);
    flatclip_status status = FLATCLIP_ERR_MEMORY;
    snprintf(err->message, sizeof err->message, "no memory for the pictures");
    if (pixels && rows) {
        uint64_t random = 1;
        for (size_t i = 0; i < most * side * side * 3; i++)
            pixels[i] = (uint8_t)random_next(&random);
        status = FLATCLIP_OK;
        printf("%6s %18s %18s %11s\n", "batch", "layers, GFLOP/s", "forward, GFLOP/s", "share");
    }
    for (int i = 0; i < BATCHES && status == FLATCLIP_OK; i++)
        status = compare(session, batches[i], o->repeats, pixels, rows, err);
    free(rows);
    free(pixels);
    return status;
}

int main(int argc, char **argv)
{
    gemm_options options;
    if (asks_for_help(argc, argv))
        return usage(stdout, 0);
    if (!read_options(argc, argv, &options))
        return usage(stderr, 2);
    flatclip_model *model = NULL;
    flatclip_session *session = NULL;
    flatclip_error err;
    flatclip_model_options for_model = FLATCLIP_MODEL_OPTIONS_INIT;
    flatclip_session_options for_session = FLATCLIP_SESSION_OPTIONS_INIT;
    for_model.device = FLATCLIP_DEVICE_CPU;
    for_session.threads = (int)options.threads;
    flatclip_status status = flatclip_model_load(options.model, &for_model, &model, &err);
    if (status == FLATCLIP_OK)
        status = flatclip_session_create(model, &for_session, &session, &err);
    if (status == FLATCLIP_OK) {
        printf("flatclip-gemm: %s, threads %ld\n", model->backend, options.threads);
        status = run(&options, model, session, &err);
    }
    if (status != FLATCLIP_OK)
        fprintf(stderr, "flatclip-gemm: %s\n", err.message);
    flatclip_session_free(session);
    flatclip_model_free(model);
    return status == FLATCLIP_OK ? 0 : 3;
}
