/* flatclip-bench on a GPU, here the stand-in runtime, beside NVIDIA's libraries, here a stand-in for
 * cuBLASLt: the ceiling, the second run with its products, and that what is lacking is said. */
#define _GNU_SOURCE
#include <cjson/cJSON.h>

#include "bench/speed/speed_work.h"
#include "tests/fakecuda/engine_fixture.h"
#include "tests/program_output.h"
#include "tests/temp_folder.h"

/* What a run with --json found, and what it complained of. */
typedef struct {
    cJSON *object;
    const cJSON *rows;
    char complaints[TEXT];
} bench_run;

static void run_bench(const temp_folder *folder, const char *words, bench_run *run)
{
    char text[TEXT], command[2 * PATH_MAX], path[PATH_MAX];
    temp_path(folder, "complaints", path);
    snprintf(command, sizeof command, FLATCLIP_BENCH " -m %s --device cuda --batch 1 --repeats 1 "
             "--json %s 2> %s", model_path("nano"), words, path);
    assert_int_equal(run_command(command, text), 0);
    run->object = cJSON_Parse(text);
    assert_non_null(run->object);
    run->rows = cJSON_GetObjectItemCaseSensitive(run->object, "results");
    snprintf(command, sizeof command, "cat %s", path);
    assert_int_equal(run_command(command, run->complaints), 0);
}

static const cJSON *cell(const bench_run *run, int row, const char *name)
{
    const cJSON *item =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(run->rows, row), name);
    assert_non_null(item);
    return item;
}

static void expect_complaint(const bench_run *run, const char *part)
{
    if (!strstr(run->complaints, part))
        fail_msg("\"%s\" is not in:\n%s", part, run->complaints);
}

static void the_same_is_timed_with_cublaslt(void **state)
{
    bench_run run;
    run_bench(*state, "--precision bf16", &run);
    assert_int_equal(cJSON_GetArraySize(run.rows), 2);
    for (int i = 0; i < 2; i++) {
        const char *backend = cell(&run, i, "backend")->valuestring;
        assert_int_equal(strncmp(backend, "cuda:0/sm_", 10), 0);
        assert_int_equal(strstr(backend, "cuBLASLt") != NULL, i);
        assert_true(cell(&run, i, "ceiling_gflops")->valuedouble > 0);
        assert_true(cell(&run, i, "share")->valuedouble >= 0);
        assert_true(cell(&run, i, "stream_gbs")->valuedouble > 0);
    }
    assert_string_equal(run.complaints, "");
    cJSON_Delete(run.object);
}

static void a_wish_in_the_environment_is_all_that_is_timed(void **state)
{
    bench_run run;
    setenv("FLATCLIP_GEMM", "own", 1);
    run_bench(*state, "", &run);
    unsetenv("FLATCLIP_GEMM");
    assert_int_equal(cJSON_GetArraySize(run.rows), 1);
    assert_null(strstr(cell(&run, 0, "backend")->valuestring, "cuBLASLt"));
    cJSON_Delete(run.object);
}

static void a_profile_says_that_cudnn_is_missing(void **state)
{
    bench_run run;
    run_bench(*state, "--profile", &run);
    assert_int_equal(cJSON_GetArraySize(run.rows), 2 * (SPEED_STAGES + 1));
    expect_complaint(&run, "cuDNN: attention: not measured: /nowhere");
    expect_complaint(&run, "cuDNN: patches: not measured: /nowhere");
    cJSON_Delete(run.object);
}

static void without_cublaslt_its_numbers_are_missing_by_name(void **state)
{
    bench_run run;
    setenv("FLATCLIP_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    run_bench(*state, "", &run);
    assert_int_equal(cJSON_GetArraySize(run.rows), 1);
    assert_true(cJSON_IsNull(cell(&run, 0, "ceiling_gflops")));
    assert_true(cJSON_IsNull(cell(&run, 0, "share")));
    assert_true(cell(&run, 0, "stream_gbs")->valuedouble > 0);
    expect_complaint(&run, "the ceiling: not measured: ");
    expect_complaint(&run, "the same with cuBLASLt: not measured: ");
    cJSON_Delete(run.object);
}

static void float32_has_no_ceiling_and_says_so(void **state)
{
    bench_run run;
    run_bench(*state, "--precision f32", &run);
    assert_int_equal(cJSON_GetArraySize(run.rows), 1);
    assert_true(cJSON_IsNull(cell(&run, 0, "share")));
    expect_complaint(&run, "16-bit numbers alone");
    cJSON_Delete(run.object);
}

static int prepare(void **state)
{
    setenv("FLATCLIP_CUBLASLT", "build/simt/libfake_cublaslt.so", 1);
    setenv("FLATCLIP_CUDNN", "/nowhere/libcudnn.so", 1);
    unsetenv("FLATCLIP_GEMM");
    return make_temp_folder(state);
}

#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, prepare, remove_temp_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(the_same_is_timed_with_cublaslt),
        BENCH_TEST(a_wish_in_the_environment_is_all_that_is_timed),
        BENCH_TEST(a_profile_says_that_cudnn_is_missing),
        BENCH_TEST(without_cublaslt_its_numbers_are_missing_by_name),
        BENCH_TEST(float32_has_no_ceiling_and_says_so),
    };
    return cmocka_run_group_tests_name("bench on a device", tests, write_nano_model, NULL);
}
