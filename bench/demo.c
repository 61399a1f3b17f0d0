/* flatclip-demo: what `make demo` shows. Embeds seven sample photographs, prints how alike they
 * are, then runs the loop that flatclip was written for, the same pictures again and again, with
 * the memory after each pass. Exit: 0 flat, 1 memory grew, 2 wrong usage, 3 model or pictures
 * unusable. */
#define _GNU_SOURCE
#include "bench/measure.h"
#include "engine/base/clip_config.h"

enum { SAMPLES = 7, PASSES = 10 };

static const char *const samples[SAMPLES] = {
    "astronaut_420.jpg",      "cat_420.jpg",    "coffee_422.jpg",  "rocket_444.jpg",
    "hubble_progressive.jpg", "horse_rgba.png", "camera_gray.png",
};
static const char *const titles[SAMPLES] = { "astronaut", "cat",   "coffee", "rocket",
                                             "hubble",    "horse", "camera" };

/* Where the weights come from, as the model file says. */
static flatclip_status read_config(const char *path, fc_clip_config *config, flatclip_error *err)
{
    fc_safetensors *file = NULL;
    flatclip_status status = fc_safetensors_open(path, &file, err);
    if (status == FLATCLIP_OK)
        status = fc_clip_config_read(file, config, err);
    fc_safetensors_close(file);
    return status;
}

static void print_model(const char *path, const flatclip_model *model, const fc_clip_config *config)
{
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    flatclip_model_describe(model, &info);
    printf("model    %s (%s)\n", path, config->source);
    printf("shape    %d px, patches of %d, %d layers of width %d, %d floats an image\n",
           info.image_size, info.patch_size, info.layers, info.width, info.embed_dim);
    printf("backend  %s\n", info.backend);
    if (info.fallback[0])
        printf("         not a GPU, because: %s\n", info.fallback);
    putchar('\n');
}

static void print_cosines(const float *rows, int dim)
{
    printf("How alike the samples are (cosine):\n%10s", "");
    for (int i = 0; i < SAMPLES; i++)
        printf("%10s", titles[i]);
    for (int i = 0; i < SAMPLES; i++) {
        printf("\n%10s", titles[i]);
        for (int k = 0; k < SAMPLES; k++) {
            double cosine = 0;
            for (int d = 0; d < dim; d++)
                cosine += (double)rows[i * dim + d] * rows[k * dim + d];
            printf("%10.3f", cosine);
        }
    }
    putchar('\n');
}

/* Prints the passes; returns whether nothing grew after the first. */
static int print_memory(const measurement *pass)
{
    int flat = 1;
    printf("\nThe same pictures ten times over, memory after each pass:\n"
           "%6s %16s %16s %16s\n",
           "pass", "engine bytes", "heap bytes", "resident MiB");
    for (int i = 0; i < PASSES; i++) {
        printf("%6d %16zu %16zu %16.1f\n", i + 1, pass[i].engine, pass[i].heap,
               mebibytes(pass[i].resident));
        flat = flat && pass[i].engine == pass[0].engine && pass[i].heap <= pass[0].heap;
    }
    puts(flat ? "flat: not one byte more after pass 10 than after pass 1"
              : "NOT FLAT: memory grew between the passes");
    return flat;
}

static flatclip_status run_demo(const char *path, const char *const *pictures,
                                flatclip_model *model, flatclip_session *session, int *flat,
                                flatclip_error *err)
{
    const int dim = flatclip_model_embed_dim(model);
    measurement pass[PASSES];
    fc_clip_config config;
    FC_TRY(read_config(path, &config, err));
    float *rows = malloc(SAMPLES * (size_t)dim * sizeof *rows);
    if (!rows)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for %d embeddings", SAMPLES);
    flatclip_status status = FLATCLIP_OK;
    for (int i = -1; i < PASSES && status == FLATCLIP_OK; i++) { /* one pass before, to settle */
        status = flatclip_encode_files(session, pictures, SAMPLES, rows, NULL, err);
        if (i >= 0)
            pass[i] = measure(session);
    }
    if (status == FLATCLIP_OK) {
        print_model(path, model, &config);
        print_cosines(rows, dim);
        if (strncmp(config.source, "synth", 5) == 0)
            puts("note: these weights are synthetic, so the similarities above mean nothing");
        *flat = print_memory(pass);
    }
    free(rows);
    return status;
}

int main(int argc, char **argv)
{
    static char buffer[4096], paths[SAMPLES][512];
    const char *pictures[SAMPLES];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    measure_exactly(argv);
    if ((argc != 3 && argc != 4) || strcmp(argv[1], "-m") != 0) {
        const int help = asks_for_help(argc, argv);
        fputs("usage: flatclip-demo -m MODEL [FOLDER of the sample photographs]\n",
              help ? stdout : stderr);
        return help ? 0 : 2;
    }
    for (int i = 0; i < SAMPLES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", argc == 4 ? argv[3] : "tests/data/images/good",
                 samples[i]);
        pictures[i] = paths[i];
    }
    int flat = 0;
    flatclip_model *model = NULL;
    flatclip_session *session = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = SAMPLES;
    /* As the founding user's loop; and glibc keeps a heap for each thread that decodes. */
    options.threads = 1;
    flatclip_status status = flatclip_model_load(argv[2], NULL, &model, &err);
    if (status == FLATCLIP_OK)
        status = flatclip_session_create(model, &options, &session, &err);
    if (status == FLATCLIP_OK)
        status = run_demo(argv[2], pictures, model, session, &flat, &err);
    if (status != FLATCLIP_OK)
        fprintf(stderr, "flatclip-demo: %s\n", err.message);
    flatclip_session_free(session);
    flatclip_model_free(model);
    return status != FLATCLIP_OK ? 3 : flat ? 0 : 1;
}
