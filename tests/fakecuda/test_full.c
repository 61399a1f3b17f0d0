/* One picture through the whole ViT-B/32 on the stand-in GPU, at full size: the engine's host code
 * and the kernels' source as they are. Takes minutes (make test-full); make test leaves it out. */
#define _GNU_SOURCE
#include <math.h>
#include <time.h>

#include "tests/fakecuda/fakecuda.h"
#include "tests/model_fixture.h"

enum { SIDE = 224, MOST = 1024 };

static const double LEAST_COSINE = 0.99999; /* of f16, against float64: docs/numerics.md */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double cosine(const float *a, const float *b, size_t count)
{
    double product = 0, length_a = 0, length_b = 0;
    for (size_t i = 0; i < count; i++) {
        product += (double)a[i] * b[i];
        length_a += (double)a[i] * a[i];
        length_b += (double)b[i] * b[i];
    }
    return product / sqrt(length_a * length_b);
}

static double largest_gap(const float *a, const float *b, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double gap = fabs((double)a[i] - b[i]);
        worst = gap <= worst ? worst : gap; /* NaN counts as worse */
    }
    return worst;
}

/* Encodes one picture, and says how long each step took. */
static void encode_on(flatclip_device device, flatclip_precision precision, const uint8_t *pixels,
                      float *row)
{
    flatclip_model *model = NULL;
    flatclip_session *session = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    flatclip_model_options for_model = FLATCLIP_MODEL_OPTIONS_INIT;
    flatclip_session_options for_session = FLATCLIP_SESSION_OPTIONS_INIT;

    for_model.device = device;
    for_model.precision = precision;
    for_session.max_batch = for_session.threads = 1;
    const double started = seconds();
    must(flatclip_model_load(model_path("vitb32"), &for_model, &model, &err), &err);
    flatclip_model_describe(model, &info);
    assert_int_equal(info.device, device);
    assert_int_equal(info.precision, precision);
    assert_in_range(info.embed_dim, 1, MOST);
    const double loaded = seconds();
    must(flatclip_session_create(model, &for_session, &session, &err), &err);
    const double opened = seconds();
    must(flatclip_encode_pixels_u8(session, pixels, 1, row, NULL, &err), &err);
    print_message("%s: loaded in %.1f s, opened in %.1f s, encoded in %.1f s\n", info.backend,
                  loaded - started, opened - loaded, seconds() - opened);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

static void one_full_size_picture_equals_float64_and_the_cpu(void **state)
{
    (void)state;
    static fixture_images images;
    static float on_gpu[MOST], on_cpu[MOST];
    size_t rows, dim;
    list_images(&images);
    uint8_t *pixels = golden_pixels("pixels_openai", images.names, 1, SIDE);
    float *golden = golden_rows("image_vitb32", "unit", &rows, &dim);

    encode_on(FLATCLIP_DEVICE_CPU, FLATCLIP_PRECISION_F32, pixels, on_cpu);
    encode_on(FLATCLIP_DEVICE_CUDA, FLATCLIP_PRECISION_F16, pixels, on_gpu);
    const double to_golden = cosine(on_gpu, golden, dim), to_cpu = cosine(on_gpu, on_cpu, dim);
    print_message("%s: cosine %.8f to float64 (largest difference %.1e), %.8f to the CPU's float32 "
                  "(%.1e); the CPU is %.1e from float64\n", images.names[0], to_golden,
                  largest_gap(on_gpu, golden, dim), to_cpu, largest_gap(on_gpu, on_cpu, dim),
                  largest_gap(on_cpu, golden, dim));
    assert_true(to_golden >= LEAST_COSINE);
    assert_true(to_cpu >= LEAST_COSINE);
    assert_string_equal(fakecuda_finding(), "");
    assert_int_equal(fakecuda_get_holdings().device_blocks, 0);
    free(golden);
    free(pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_full_size_picture_equals_float64_and_the_cpu),
    };
    return cmocka_run_group_tests_name("full", tests, NULL, NULL);
}
