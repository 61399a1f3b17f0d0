/* The CUDA engine with cuBLASLt for its products, on the stand-in runtime and a stand-in for that
 * library: asked for by name, right, nothing taken after opening, failures reported. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "engine/model.h"
#include "tests/fakecuda/engine_fixture.h"

#define LIBRARY "build/simt/libfake_cublaslt.so"

/* -- Fixture ---------------------------------------------------------------------------------- */

static void *library; /* kept loaded, so that its counters live on */

static long *counter(const char *name)
{
    long *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

static int load_library(void **state)
{
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return print_error("%s\n", dlerror()), -1;
    return write_nano_model(state);
}

static int ask_for_it(void **state)
{
    setenv("FLATCLIP_GEMM", "cublaslt", 1);
    setenv("FLATCLIP_CUBLASLT", LIBRARY, 1);
    unsetenv("FAKE_CUBLASLT_FAIL_AT");
    *counter("fake_cublaslt_live") = *counter("fake_cublaslt_calls") = 0;
    return reset(state);
}

static int check_nothing_is_left_there(void **state)
{
    const long live = *counter("fake_cublaslt_live");
    unsetenv("FLATCLIP_GEMM");
    unsetenv("FLATCLIP_CUBLASLT");
    unsetenv("FAKE_CUBLASLT_FAIL_AT");
    if (live)
        print_error("%ld objects of cuBLASLt are left\n", live);
    return live || check_nothing_is_left(state);
}

/* -- Tests ------------------------------------------------------------------------------------ */

static void tiny_model_in_f16_equals_float64(void **state)
{
    (void)state;
    const long before = *counter("fake_cublaslt_products");
    check_golden(FLATCLIP_PRECISION_F16, 3, 1e-3);
    assert_true(*counter("fake_cublaslt_products") > before);
}

static void tiny_model_in_bf16_equals_float64(void **state)
{
    (void)state;
    check_golden(FLATCLIP_PRECISION_BF16, 3, 5e-3);
}

static void the_backend_is_named(void **state)
{
    (void)state;
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    flatclip_model *model = load_cuda("nano", FLATCLIP_PRECISION_F16);
    flatclip_model_describe(model, &info);
    assert_non_null(strstr(info.backend, "cuBLASLt 13.1"));
    flatclip_model_free(model);
}

/* Its workspace is part of the plan, and its objects are gone once the graphs are recorded. */
static void encoding_takes_nothing(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_memory memory = FLATCLIP_MEMORY_INIT;
    flatclip_model *model = load_cuda("nano", FLATCLIP_PRECISION_F16);
    const size_t row = (size_t)flatclip_model_embed_dim(model) * sizeof(float);
    uint8_t *pixels = random_pixels(3 * NANO_PICTURE, 5);
    float first[3 * MOST], rows[3 * MOST];
    flatclip_session *session = open_session(model, 2, 1);
    flatclip_session_memory(session, &memory);
    assert_true(memory.device >= FC_CUBLASLT_WORKSPACE);
    assert_int_equal(fakecuda_get_holdings().device_bytes, memory.device);
    must(flatclip_encode_pixels_u8(session, pixels, 3, first, NULL, &err), &err);

    const long calls = *counter("fake_cublaslt_calls");
    fakecuda_reset();
    fakecuda_freeze();
    for (size_t i = 0; i < 20; i++) {
        must(flatclip_encode_pixels_u8(session, pixels, 3, rows, NULL, &err), &err);
        assert_memory_equal(rows, first, 3 * row);
    }
    assert_int_equal(fakecuda_get_counts().others, 0);
    assert_int_equal(*counter("fake_cublaslt_calls"), calls);
    assert_int_equal(*counter("fake_cublaslt_live"), 1); /* the session's handle */
    fakecuda_reset();
    flatclip_session_free(session);
    flatclip_model_free(model);
    free(pixels);
}

static void every_call_that_fails_is_reported_and_leaves_nothing(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    fakecuda_machine machine = usual;
    long *const calls = counter("fake_cublaslt_calls");
    machine.idle = 1;
    fakecuda_set_machine(&machine);
    assert_int_equal(whole_life(NULL, &err), FLATCLIP_OK);
    const long all = *calls;
    assert_true(all > 100);
    for (long i = 0; i < all; i++) {
        char at[24];
        snprintf(at, sizeof at, "%ld", i);
        setenv("FAKE_CUBLASLT_FAIL_AT", at, 1);
        *calls = 0;
        if (whole_life(NULL, &err) != FLATCLIP_ERR_DEVICE || !strstr(err.message, "cuBLASLt 13.1"))
            fail_msg("call %ld of %ld failed unnoticed: %s", i, all, err.message);
        assert_int_equal(*counter("fake_cublaslt_live"), 0);
    }
}

static void expect_refusal(flatclip_precision precision, flatclip_status status, const char *words)
{
    flatclip_model *model = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    assert_int_equal(load_on("nano", FLATCLIP_DEVICE_CUDA, precision, &model, &err), status);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not say '%s'", err.message, words);
}

static void what_is_lacking_is_named(void **state)
{
    (void)state;
    expect_refusal(FLATCLIP_PRECISION_F32, FLATCLIP_ERR_UNAVAILABLE, "use one of these precisions");
    setenv("FLATCLIP_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    expect_refusal(FLATCLIP_PRECISION_F16, FLATCLIP_ERR_UNAVAILABLE, "/nowhere/libcublasLt.so");
    setenv("FLATCLIP_CUBLASLT", "libm.so.6", 1);
    expect_refusal(FLATCLIP_PRECISION_F16, FLATCLIP_ERR_UNAVAILABLE, "no cublasLtGetVersion");
    setenv("FLATCLIP_GEMM", "fastest", 1);
    expect_refusal(FLATCLIP_PRECISION_F16, FLATCLIP_ERR_ARGUMENT, "expected own or cublaslt");
}

static void own_products_need_no_library(void **state)
{
    (void)state;
    flatclip_error err;
    setenv("FLATCLIP_GEMM", "own", 1);
    setenv("FLATCLIP_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    assert_int_equal(whole_life(NULL, &err), FLATCLIP_OK);
    assert_int_equal(*counter("fake_cublaslt_calls"), 0);
}

#define LT_TEST(name) cmocka_unit_test_setup_teardown(name, ask_for_it, check_nothing_is_left_there)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LT_TEST(tiny_model_in_f16_equals_float64),
        LT_TEST(tiny_model_in_bf16_equals_float64),
        LT_TEST(the_backend_is_named),
        LT_TEST(encoding_takes_nothing),
        LT_TEST(every_call_that_fails_is_reported_and_leaves_nothing),
        LT_TEST(what_is_lacking_is_named),
        LT_TEST(own_products_need_no_library),
    };
    return cmocka_run_group_tests_name("cublaslt", tests, load_library, NULL);
}
