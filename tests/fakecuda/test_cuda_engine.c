/* The CUDA engine on the stand-in runtime: the real host code and the real kernels' source, against
 * goldens of float64; the same bits whatever the batch; nothing taken after opening; every failing
 * call. Only in builds with CUDA=standin. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "tests/fakecuda/engine_fixture.h"

/* -- Numbers ---------------------------------------------------------------------------------- */

static void tiny_model_in_f32_equals_float64(void **state)
{
    (void)state;
    check_golden(FLATCLIP_PRECISION_F32, 1, 1e-6);
}

static void tiny_model_in_f16_equals_float64(void **state)
{
    (void)state;
    check_golden(FLATCLIP_PRECISION_F16, 12, 1e-3);
}

static void tiny_model_in_bf16_equals_float64(void **state)
{
    (void)state;
    check_golden(FLATCLIP_PRECISION_BF16, 12, 5e-3);
}

/* The caller's own float32 pixels go through another patch embedding, four of them where 16 byte
 * pictures fit, one at the least. */
static void float_pixels_equal_bytes(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    flatclip_model *model = load_cuda("tiny", FLATCLIP_PRECISION_F16);
    uint8_t *bytes = some_golden_pixels(COUNT);
    float *floats = malloc(COUNT * PICTURE * sizeof *floats);
    float from_bytes[COUNT * MOST], from_floats[COUNT * MOST];

    flatclip_model_describe(model, &info);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t c = 0; c < 3; c++)
            for (size_t p = 0; p < SIDE * SIDE; p++)
                floats[(i * 3 + c) * SIDE * SIDE + p] =
                    ((float)bytes[(i * SIDE * SIDE + p) * 3 + c] / 255.0f - info.mean[c]) /
                    info.std[c];
    flatclip_session *session = open_session(model, 8, 1);
    must(flatclip_encode_pixels_u8(session, bytes, COUNT, from_bytes, NULL, &err), &err);
    must(flatclip_encode_pixels_f32(session, floats, COUNT, from_floats, NULL, &err), &err);
    for (int i = 0; i < COUNT * info.embed_dim; i++)
        assert_true(fabsf(from_bytes[i] - from_floats[i]) < 1e-3f);
    flatclip_session_free(session);
    flatclip_model_free(model);
    free(floats);
    free(bytes);
}

static void vectors_keep_their_length_without_normalization(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = load_cuda("micro", FLATCLIP_PRECISION_F16);
    uint8_t *pixels = some_golden_pixels(1);
    float unit[MOST], raw[MOST];
    double length = 0;
    flatclip_session *session;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;

    options.max_batch = options.threads = options.no_normalize = 1;
    must(flatclip_session_create(model, &options, &session, &err), &err);
    must(flatclip_encode_pixels_u8(session, pixels, 1, raw, NULL, &err), &err);
    flatclip_session_free(session);
    encode_with(model, 1, pixels, 1, unit);
    const int dim = flatclip_model_embed_dim(model);
    for (int i = 0; i < dim; i++)
        length += (double)raw[i] * raw[i];
    length = sqrt(length);
    assert_true(fabs(length - 1) > 0.01);
    for (int i = 0; i < dim; i++)
        assert_true(fabs(raw[i] / length - unit[i]) < 1e-6);
    flatclip_model_free(model);
    free(pixels);
}

/* -- The same bits ---------------------------------------------------------------------------- */

/* The same five pictures in batches of 1, 2, 3 and 5. Batches share graphs that are larger; the
 * number of multiprocessors decides on tiles and chunks. */
static void check_bits(const char *name, size_t picture, flatclip_precision precision,
                       const int *multiprocessors, size_t machines)
{
    enum { COUNT = 5 };
    static const int batches[] = { 1, 2, 3, 5 };
    uint8_t *pixels = random_pixels(COUNT * picture, 7);
    float first[COUNT * MOST], again[COUNT * MOST];

    for (size_t m = 0; m < machines; m++) {
        fakecuda_machine machine = usual;
        machine.multiprocessors = multiprocessors[m];
        machine.random_threads = m == 1;
        fakecuda_set_machine(&machine);
        flatclip_model *model = load_cuda(name, precision);
        const size_t bytes = COUNT * (size_t)flatclip_model_embed_dim(model) * sizeof(float);
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            encode_with(model, batches[b], pixels, COUNT, again);
            if (m + b == 0)
                memcpy(first, again, bytes);
            assert_memory_equal(first, again, bytes);
        }
        flatclip_model_free(model);
    }
    free(pixels);
}

static void tiny_models_bits_do_not_depend_on_batch(void **state)
{
    (void)state;
    static const int usual_machine[] = { 132 };
    check_bits("tiny", PICTURE, FLATCLIP_PRECISION_F16, usual_machine, 1);
}

static void bits_depend_on_neither_batch_nor_tile_in_any_precision(void **state)
{
    (void)state;
    static const int multiprocessors[] = { 1, 4, 132 };
    check_bits("nano", NANO_PICTURE, FLATCLIP_PRECISION_F16, multiprocessors, 3);
    check_bits("nano", NANO_PICTURE, FLATCLIP_PRECISION_BF16, multiprocessors, 3);
    check_bits("nano", NANO_PICTURE, FLATCLIP_PRECISION_F32, multiprocessors, 1);
}

typedef struct {
    const flatclip_model *model;
    const uint8_t *pixels;
    float rows[4 * MOST];
} one_of_two;

static void *encode_in_a_thread(void *user)
{
    one_of_two *work = user;
    encode_with(work->model, 2, work->pixels, 4, work->rows);
    return NULL;
}

static void two_sessions_at_the_same_time_give_the_same_bits(void **state)
{
    (void)state;
    pthread_t thread;
    flatclip_model *model = load_cuda("nano", FLATCLIP_PRECISION_F16);
    uint8_t *pixels = random_pixels(4 * NANO_PICTURE, 9);
    static one_of_two work[2];
    work[0].model = work[1].model = model;
    work[0].pixels = work[1].pixels = pixels;
    assert_int_equal(pthread_create(&thread, NULL, encode_in_a_thread, &work[0]), 0);
    encode_in_a_thread(&work[1]);
    pthread_join(thread, NULL);
    assert_memory_equal(work[0].rows, work[1].rows,
                        4 * (size_t)flatclip_model_embed_dim(model) * sizeof(float));
    flatclip_model_free(model);
    free(pixels);
}

/* -- The pipeline ----------------------------------------------------------------------------- */

typedef struct {
    size_t rows, stop_after;
    float row[64 * MOST];
    int failed[64], dim;
} kept_results;

static int keep(void *user, size_t index, const float *embedding, const flatclip_error *error)
{
    kept_results *kept = user;
    assert_int_equal(index, kept->rows);
    kept->failed[index] = error->status != FLATCLIP_OK;
    if (embedding)
        memcpy(kept->row + index * (size_t)kept->dim, embedding,
               (size_t)kept->dim * sizeof *embedding);
    return ++kept->rows == kept->stop_after;
}

/* Files in more batches than are under way, bad ones among them, equal their golden pixels. */
static void files_through_the_pipeline_equal_pixels(void **state)
{
    (void)state;
    enum { GOOD = 12 };
    static fixture_images images;
    static kept_results kept;
    const char *paths[GOOD + 2];
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = load_cuda("micro", FLATCLIP_PRECISION_F16);
    const size_t dim = (size_t)flatclip_model_embed_dim(model);
    float ready[GOOD * MOST];
    uint8_t *pixels = some_golden_pixels(GOOD);

    list_images(&images);
    encode_with(model, 5, pixels, GOOD, ready);
    memcpy(paths, images.paths, GOOD * sizeof *paths);
    paths[GOOD] = paths[4]; /* the fifth one goes to the end */
    paths[4] = "tests/data/images/bad/truncated_half.jpg";
    paths[GOOD + 1] = "tests/data/images/bad/empty.jpg";
    flatclip_session *session = open_session(model, 3, 2);
    for (int turn = 0; turn < 2; turn++) {
        memset(&kept, 0, sizeof kept);
        kept.dim = (int)dim;
        assert_int_equal(flatclip_encode_files_each(session, paths, GOOD + 2, keep, &kept, &err),
                         FLATCLIP_ERR_ITEMS);
        assert_int_equal(kept.rows, GOOD + 2);
        for (size_t i = 0; i < GOOD + 2; i++) {
            const size_t golden = i == GOOD ? 4 : i;
            const int bad = i == 4 || i == GOOD + 1;
            assert_int_equal(kept.failed[i], bad);
            if (!bad)
                assert_memory_equal(kept.row + i * dim, ready + golden * dim, dim * sizeof(float));
        }
    }
    flatclip_session_free(session);
    flatclip_model_free(model);
    free(pixels);
}

/* Batches of 2 MB and more come over a stream of their own, beside the computation of the batch
 * before. Whichever of the two streams is ahead, the numbers are those of small batches. */
static void a_stream_for_pixels_changes_no_bit(void **state)
{
    (void)state;
    enum { COUNT = 33, BATCH = 15 };
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = load_cuda("micro", FLATCLIP_PRECISION_F16);
    const size_t dim = (size_t)flatclip_model_embed_dim(model);
    uint8_t *pixels = random_pixels(COUNT * PICTURE, 4);
    static float expected[COUNT * MOST], rows[COUNT * MOST];

    encode_with(model, 3, pixels, COUNT, expected);
    for (unsigned early = 0; early < 3; early++) { /* none, the computation, the pixels */
        fakecuda_machine machine = usual;
        machine.early = early;
        fakecuda_set_machine(&machine);
        flatclip_session *session = open_session(model, BATCH, 1);
        fakecuda_reset();
        must(flatclip_encode_pixels_u8(session, pixels, COUNT, rows, NULL, &err), &err);
        assert_int_equal(fakecuda_get_counts().events, 2 * 5 + 2); /* two such, one small */
        assert_memory_equal(rows, expected, COUNT * dim * sizeof *rows);
        flatclip_session_free(session);
    }
    flatclip_model_free(model);
    free(pixels);
}

/* A call that ends early leaves no batch under way that would write into the next call's. */
static void stopping_leaves_nothing_under_way(void **state)
{
    (void)state;
    static fixture_images images;
    static kept_results kept;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = load_cuda("micro", FLATCLIP_PRECISION_F16);
    const size_t dim = (size_t)flatclip_model_embed_dim(model);
    float expected[MOST], row[MOST];
    uint8_t *pixels = random_pixels(PICTURE, 3);
    flatclip_session *session = open_session(model, 2, 1);

    list_images(&images);
    encode_with(model, 1, pixels, 1, expected);
    for (size_t stop = 1; stop <= 5; stop += 2) {
        kept = (kept_results){ .stop_after = stop, .dim = (int)dim };
        assert_int_equal(flatclip_encode_files_each(session, images.paths, 12, keep, &kept, &err),
                         FLATCLIP_ERR_STOPPED);
        must(flatclip_encode_pixels_u8(session, pixels, 1, row, NULL, &err), &err);
        assert_memory_equal(row, expected, dim * sizeof *row);
    }
    flatclip_session_free(session);
    flatclip_model_free(model);
    free(pixels);
}

/* -- Memory ----------------------------------------------------------------------------------- */

static void plan_says_what_is_allocated(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model_options for_model = FLATCLIP_MODEL_OPTIONS_INIT;
    flatclip_session_options for_session = FLATCLIP_SESSION_OPTIONS_INIT;
    flatclip_memory plan = FLATCLIP_MEMORY_INIT, memory = FLATCLIP_MEMORY_INIT;
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;

    for_model.device = FLATCLIP_DEVICE_CUDA;
    for_session.max_batch = 5;
    for_session.threads = 1;
    must(flatclip_plan(model_path("micro"), &for_model, &for_session, &info, &plan, NULL, NULL,
                       &err), &err);
    assert_int_equal(fakecuda_get_holdings().device_blocks, 0);
    assert_int_equal(info.device, FLATCLIP_DEVICE_CUDA);
    assert_int_equal(info.precision, FLATCLIP_PRECISION_F16);
    assert_string_equal(info.backend, "cuda:0/sm_80 stand-in (emulated)");

    flatclip_model *model = load_cuda("micro", FLATCLIP_PRECISION_AUTO);
    assert_int_equal(fakecuda_get_holdings().device_bytes, plan.weights);
    flatclip_session *session = open_session(model, 5, 1);
    const fakecuda_holdings held = fakecuda_get_holdings();
    flatclip_session_memory(session, &memory);
    assert_memory_equal(&plan, &memory, sizeof plan);
    assert_int_equal(held.device_bytes, memory.device);
    assert_int_equal(held.device_blocks, 2); /* weights, and the session's block */
    assert_int_equal(held.pinned_blocks, 1);
    assert_true(memory.total >= memory.device + held.pinned_bytes);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

/* Launches, copies, events and waits are all that encoding asks of the runtime. */
static void a_thousand_encodes_take_nothing(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = load_cuda("nano", FLATCLIP_PRECISION_F16);
    const size_t dim = (size_t)flatclip_model_embed_dim(model);
    uint8_t *pixels = random_pixels(3 * NANO_PICTURE, 5);
    float first[3 * MOST], rows[3 * MOST];
    flatclip_session *session = open_session(model, 2, 1);
    must(flatclip_encode_pixels_u8(session, pixels, 3, first, NULL, &err), &err);

    fakecuda_reset();
    fakecuda_freeze();
    const fakecuda_holdings before = fakecuda_get_holdings();
    for (size_t i = 0; i < 1000; i++) {
        const size_t count = i % 20 ? 1 : 3; /* one batch mostly, sometimes two */
        fakecuda_machine machine = usual;
        machine.idle = i % 10 != 0; /* it is the host's calls that are counted */
        fakecuda_set_machine(&machine);
        must(flatclip_encode_pixels_u8(session, pixels, count, rows, NULL, &err), &err);
        if (!machine.idle)
            assert_memory_equal(rows, first, count * dim * sizeof *rows);
    }
    const fakecuda_counts counts = fakecuda_get_counts();
    const fakecuda_holdings after = fakecuda_get_holdings();
    print_message("%ld calls: %ld launches, %ld of graphs, %ld copies, %ld events, %ld waits, %ld "
                  "questions, %ld others\n", counts.calls, counts.launches, counts.graph_launches,
                  counts.copies, counts.events, counts.waits, counts.questions, counts.others);
    assert_int_equal(counts.others + counts.questions, 0);
    assert_int_equal(counts.memsets, 0);
    assert_int_equal(counts.pageable, 0);
    assert_int_equal(counts.graph_launches, 1050);
    assert_memory_equal(&before, &after, sizeof before);
    fakecuda_reset();
    flatclip_session_free(session);
    flatclip_model_free(model);
    free(pixels);
}

/* -- Failures --------------------------------------------------------------------------------- */

/* A thread of the host's may have chosen the other one. */
static void one_device_of_two_is_chosen_for_every_batch(void **state)
{
    (void)state;
    fakecuda_machine machine = usual;
    uint8_t *pixels = random_pixels(3 * NANO_PICTURE, 5);
    float rows[3 * MOST];
    flatclip_error err = { FLATCLIP_OK, "" };
    machine.devices = 2;
    machine.idle = 1;
    fakecuda_set_machine(&machine);
    flatclip_model *model = load_cuda("nano", FLATCLIP_PRECISION_F16);
    flatclip_session *session = open_session(model, 1, 1);
    fakecuda_reset();
    must(flatclip_encode_pixels_u8(session, pixels, 3, rows, NULL, &err), &err);
    assert_int_equal(fakecuda_get_counts().questions, 3);
    flatclip_session_free(session);
    flatclip_model_free(model);
    free(pixels);
}

static void check_failing_calls(int error, flatclip_status expected)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    uint8_t *pixels = random_pixels(3 * NANO_PICTURE, 6);
    long failed = 0, unnoticed = 0;

    fakecuda_machine machine = usual;
    machine.idle = 1;
    fakecuda_set_machine(&machine);
    fakecuda_reset();
    assert_int_equal(whole_life(pixels, &err), FLATCLIP_OK);
    const long calls = fakecuda_get_counts().calls;
    for (long i = 0; i < calls; i++) {
        fakecuda_reset();
        fakecuda_fail_at(i, error);
        err = (flatclip_error){ FLATCLIP_OK, "" };
        const flatclip_status status = whole_life(pixels, &err);
        if (status == FLATCLIP_OK) {
            unnoticed++; /* giving back cannot fail */
        } else {
            failed++;
            assert_int_equal(status, expected);
            assert_non_null(strstr(err.message, "; "));
            assert_int_equal(cudaGetLastError(), cudaSuccess); /* for a second try */
        }
        if (check_nothing_is_left(NULL))
            fail_msg("after call %ld of %ld failed", i, calls);
    }
    print_message("%ld calls: %ld failures reported, %ld of calls that give back\n", calls, failed,
                  unnoticed);
    assert_true(failed > 100);
    assert_true(unnoticed < 20);
    fakecuda_reset();
    free(pixels);
}

static void every_call_that_lacks_memory_is_reported_and_leaves_nothing(void **state)
{
    (void)state;
    check_failing_calls(cudaErrorMemoryAllocation, FLATCLIP_ERR_MEMORY);
}

static void every_call_that_fails_is_reported_and_leaves_nothing(void **state)
{
    (void)state;
    check_failing_calls(cudaErrorLaunchFailure, FLATCLIP_ERR_DEVICE);
}

static void too_small_a_device_is_reported(void **state)
{
    (void)state;
    fakecuda_machine machine = usual;
    flatclip_model *model = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    machine.memory = 100 << 10;
    fakecuda_set_machine(&machine);
    assert_int_equal(load_on("micro", FLATCLIP_DEVICE_CUDA, FLATCLIP_PRECISION_AUTO, &model, &err),
                     FLATCLIP_ERR_MEMORY);
    assert_null(model);
    assert_non_null(strstr(err.message, "out of memory"));
    fakecuda_reset();
}

/* -- Choosing --------------------------------------------------------------------------------- */

/* AUTO takes the CPU and says why; asking for the GPU is refused with the same words. */
static void check_refused(const fakecuda_machine *machine, const char *model_name,
                          const char *reason)
{
    flatclip_model *model = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    fakecuda_set_machine(machine);
    assert_int_equal(load_on(model_name, FLATCLIP_DEVICE_CUDA, FLATCLIP_PRECISION_AUTO, &model,
                             &err), FLATCLIP_ERR_UNAVAILABLE);
    if (!strstr(err.message, reason))
        fail_msg("\"%s\" does not say \"%s\"", err.message, reason);
    must(load_on(model_name, FLATCLIP_DEVICE_AUTO, FLATCLIP_PRECISION_AUTO, &model, &err), &err);
    flatclip_model_describe(model, &info);
    assert_int_equal(info.device, FLATCLIP_DEVICE_CPU);
    assert_int_equal(info.precision, FLATCLIP_PRECISION_F32);
    assert_non_null(strstr(info.fallback, reason));
    flatclip_model_free(model);
    fakecuda_reset();
}

static void what_the_gpu_cannot_run_goes_to_the_cpu_and_says_so(void **state)
{
    (void)state;
    check_refused(&(fakecuda_machine){ .devices = -1 }, "micro", "no CUDA driver");
    check_refused(&(fakecuda_machine){ .devices = 0 }, "micro", "no device 0");
    check_refused(&(fakecuda_machine){ .devices = 1, .capability = 70 }, "micro", "capability 7.0");
    check_refused(&usual, "tiny-b16", "197 tokens");
}

static void auto_takes_the_gpu(void **state)
{
    (void)state;
    flatclip_model *model = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    must(load_on("micro", FLATCLIP_DEVICE_AUTO, FLATCLIP_PRECISION_AUTO, &model, &err), &err);
    flatclip_model_describe(model, &info);
    assert_int_equal(info.device, FLATCLIP_DEVICE_CUDA);
    assert_string_equal(info.fallback, "");
    flatclip_model_free(model);
}

static void precisions_that_are_lacking_are_refused_by_name(void **state)
{
    (void)state;
    fakecuda_machine turing = usual;
    flatclip_model *model = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    turing.capability = 75;
    fakecuda_set_machine(&turing);
    assert_int_equal(load_on("micro", FLATCLIP_DEVICE_CUDA, FLATCLIP_PRECISION_BF16, &model, &err),
                     FLATCLIP_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "bf16 needs compute capability 8.0"));
    assert_int_equal(load_on("micro", FLATCLIP_DEVICE_CUDA, FLATCLIP_PRECISION_INT8, &model, &err),
                     FLATCLIP_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "int8"));
}

#define CUDA_TEST(name) cmocka_unit_test_setup_teardown(name, reset, check_nothing_is_left)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(tiny_model_in_f32_equals_float64),
        CUDA_TEST(tiny_model_in_f16_equals_float64),
        CUDA_TEST(tiny_model_in_bf16_equals_float64),
        CUDA_TEST(float_pixels_equal_bytes),
        CUDA_TEST(vectors_keep_their_length_without_normalization),
        CUDA_TEST(tiny_models_bits_do_not_depend_on_batch),
        CUDA_TEST(bits_depend_on_neither_batch_nor_tile_in_any_precision),
        CUDA_TEST(two_sessions_at_the_same_time_give_the_same_bits),
        CUDA_TEST(files_through_the_pipeline_equal_pixels),
        CUDA_TEST(a_stream_for_pixels_changes_no_bit),
        CUDA_TEST(stopping_leaves_nothing_under_way),
        CUDA_TEST(plan_says_what_is_allocated),
        CUDA_TEST(a_thousand_encodes_take_nothing),
        CUDA_TEST(one_device_of_two_is_chosen_for_every_batch),
        CUDA_TEST(every_call_that_lacks_memory_is_reported_and_leaves_nothing),
        CUDA_TEST(every_call_that_fails_is_reported_and_leaves_nothing),
        CUDA_TEST(too_small_a_device_is_reported),
        CUDA_TEST(what_the_gpu_cannot_run_goes_to_the_cpu_and_says_so),
        CUDA_TEST(auto_takes_the_gpu),
        CUDA_TEST(precisions_that_are_lacking_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("cuda_engine", tests, write_nano_model, NULL);
}
