/* What tests of the CUDA engine on the stand-in share: the machine, models, and that nothing is
 * left behind. */
#ifndef FC_TEST_ENGINE_FIXTURE_H
#define FC_TEST_ENGINE_FIXTURE_H

#include <math.h>

#include "tests/fakecuda/fakecuda.h"
#include "tests/model_fixture.h"
#include "weights_tools/model_writer.h"
#include "weights_tools/synth.h"

enum {
    SIDE = 224, PICTURE = SIDE * SIDE * 3,
    MOST = 64,                                                  /* floats in an embedding */
    NANO_SIDE = 32, NANO_PICTURE = NANO_SIDE * NANO_SIDE * 3
};

static const fakecuda_machine usual = { .devices = 1, .capability = 80,
                                        .multiprocessors = 132, .memory = (size_t)8 << 30 };

static inline int reset(void **state)
{
    (void)state;
    fakecuda_reset();
    fakecuda_set_machine(&usual);
    return 0;
}

/* Every test gives back all that it took, and uses the runtime as it must. */
static inline int check_nothing_is_left(void **state)
{
    (void)state;
    const fakecuda_holdings held = fakecuda_get_holdings();
    const long live = held.device_blocks + held.pinned_blocks + held.streams + held.events +
                      held.graphs + held.executables;
    if (live)
        print_error("%ld blocks on the device, %ld pinned, %ld streams, %ld events, %ld graphs, %ld "
                    "executables are left\n", held.device_blocks, held.pinned_blocks, held.streams,
                    held.events, held.graphs, held.executables);
    if (fakecuda_finding()[0])
        print_error("finding: %s\n", fakecuda_finding());
    return live || fakecuda_finding()[0];
}

/* A model smaller than any that users can make, because the emulator takes its time: 17 tokens of
 * 64 numbers, 2 layers. */
static inline int write_nano_model(void **state)
{
    (void)state;
    fc_clip_config config;
    fc_model_writer *writer;
    flatclip_error err;
    fc_dtype dtypes[64] = { FC_F32 };
    uint64_t random = 1;

    if (fc_synth_config("micro", &config, &err))
        return -1;
    config.image_size = NANO_SIDE;
    config.patch_size = 8;
    config.vision.layers = 2;
    config.text.layers = 0;
    strcpy(config.source, "random numbers of a test");
    if (fc_model_writer_open(model_path("nano"), &config, dtypes, NULL, &writer, &err))
        return print_error("%s\n", err.message), -1;
    for (int i = 0; i < fc_clip_tensor_count(&config); i++) {
        fc_tensor_spec spec;
        fc_clip_tensor_spec(&config, i, &spec);
        for (uint64_t k = 0; k < spec.count; k++) {
            const float value = (float)(next_random(&random) >> 40) * 0x1p-26f - 0.125f;
            fc_model_writer_append(writer, &value, 1, &err);
        }
    }
    return fc_model_writer_commit(writer, NULL, &err) == FLATCLIP_OK ? 0 : -1;
}

static inline flatclip_status load_on(const char *name, flatclip_device device,
                               flatclip_precision precision, flatclip_model **model,
                               flatclip_error *err)
{
    flatclip_model_options options = FLATCLIP_MODEL_OPTIONS_INIT;
    options.device = device;
    options.precision = precision;
    return flatclip_model_load(model_path(name), &options, model, err);
}

static inline flatclip_model *load_cuda(const char *name, flatclip_precision precision)
{
    flatclip_model *model;
    flatclip_error err = { FLATCLIP_OK, "" };
    must(load_on(name, FLATCLIP_DEVICE_CUDA, precision, &model, &err), &err);
    return model;
}

/* Embeddings of count pictures in a session of its own; rows [count, D]. */
static inline void encode_with(const flatclip_model *model, int max_batch, const uint8_t *pixels,
                        size_t count, float *rows)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_session *session = open_session(model, max_batch, 1);
    must(flatclip_encode_pixels_u8(session, pixels, count, rows, NULL, &err), &err);
    flatclip_session_free(session);
}

static inline uint8_t *some_golden_pixels(size_t count)
{
    static fixture_images images;
    list_images(&images);
    return golden_pixels("pixels_openai", images.names, count, SIDE);
}

/* Loads the nano model, opens a session and encodes three pictures, or none if pixels is NULL. */
static inline flatclip_status whole_life(const uint8_t *pixels, flatclip_error *err)
{
    flatclip_model *model = NULL;
    flatclip_session *session = NULL;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    float rows[3 * MOST];
    options.max_batch = 2;
    options.threads = 1;
    flatclip_status status = load_on("nano", FLATCLIP_DEVICE_CUDA, FLATCLIP_PRECISION_F16, &model,
                                     err);
    if (status == FLATCLIP_OK)
        status = flatclip_session_create(model, &options, &session, err);
    if (status == FLATCLIP_OK && pixels)
        status = flatclip_encode_pixels_u8(session, pixels, 3, rows, NULL, err);
    flatclip_session_free(session);
    flatclip_model_free(model);
    return status;
}

/* Compares with the goldens of float64. */
static inline void check_golden(flatclip_precision precision, size_t count, double tolerance)
{
    size_t golden_count, dim;
    float *golden = golden_rows("image_tiny", "unit", &golden_count, &dim);
    float *rows = calloc(count * dim, sizeof *rows);
    uint8_t *pixels = some_golden_pixels(count);
    flatclip_model *model = load_cuda("tiny", precision);
    double worst = 0;

    assert_true(count <= golden_count);
    encode_with(model, count < 3 ? 1 : 3, pixels, count, rows);
    for (size_t i = 0; i < count * dim; i++) {
        const double gap = fabs((double)rows[i] - (double)golden[i]);
        worst = gap <= worst ? worst : gap; /* NaN counts as worse */
    }
    print_message("largest difference %.2e of %.0e\n", worst, tolerance);
    assert_true(worst <= tolerance);
    flatclip_model_free(model);
    free(pixels);
    free(rows);
    free(golden);
}

#endif
