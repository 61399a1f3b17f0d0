/* flatclip-bench: the arithmetic it counts, the numbers it prints, and what it refuses. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cjson/cJSON.h>
#include <cmocka.h>

#include "bench/speed/speed_work.h"
#include "tests/program_output.h"
#include "tests/temp_folder.h"

#define MODEL "-m build/models/micro.safetensors "
#define PHOTO "tests/data/images/good/cat_420.jpg"

/* Runs the program; what it printed (and, with 2>&1 in words, complained) is in text. */
static int run_bench(const char *words, char text[TEXT])
{
    const char *bin = getenv("BIN");
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command, "%s/flatclip-bench %s", bin && *bin ? bin : "build", words);
    return run_command(command, text);
}

/* The rows of a run with --json; free the object. */
static cJSON *run_json(const char *words, const cJSON **rows)
{
    char text[TEXT];
    assert_int_equal(run_bench(words, text), 0);
    cJSON *object = cJSON_Parse(text);
    assert_non_null(object);
    *rows = cJSON_GetObjectItemCaseSensitive(object, "results");
    assert_true(cJSON_IsArray(*rows));
    return object;
}

static double number_of(const cJSON *row, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, name);
    if (!cJSON_IsNumber(item))
        fail_msg("%s is no number", name);
    return item->valuedouble;
}

static void work_of_vit_b32_is_counted_as_published(void **state)
{
    (void)state;
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    info.patch_size = 32;
    info.tokens = 50;
    info.width = 768;
    info.layers = 12;
    info.embed_dim = 512;
    /* 8.818 GFLOP in full, 8.232 where only one row an image leaves the last block. */
    assert_true(fabs(speed_forward_flop(&info, 1) / 1e9 - 8.232) < 5e-4);
    assert_true(fabs(speed_forward_flop(&info, 32) / 32e9 - 8.232) < 5e-4);
}

static void encode_reports_every_batch_and_thread_count(void **state)
{
    (void)state;
    const cJSON *rows;
    cJSON *object = run_json(MODEL "--json --threads 1,2 --max-batch 5 --repeats 4", &rows);
    static const int batches[] = { 1, 2, 4, 5 };
    assert_int_equal(cJSON_GetArraySize(rows), 8);
    for (int i = 0; i < 8; i++) {
        const cJSON *row = cJSON_GetArrayItem(rows, i);
        const double median = number_of(row, "median_ms");
        assert_true(number_of(row, "threads") == 1 + i / 4);
        assert_true(number_of(row, "batch") == batches[i % 4]);
        assert_true(number_of(row, "repeats") == 4);
        assert_true(number_of(row, "p50_ms") <= median && median <= number_of(row, "p95_ms"));
        assert_true(number_of(row, "p95_ms") <= number_of(row, "p99_ms"));
        assert_true(fabs(number_of(row, "images_per_s") * median / 1e3 / batches[i % 4] - 1) <
                    0.01);
        assert_true(number_of(row, "share") > 0 && number_of(row, "ceiling_gflops") > 0);
    }
    cJSON_Delete(object);
}

static void stages_sum_to_the_whole(void **state)
{
    (void)state;
    const cJSON *rows;
    cJSON *object = run_json(MODEL "--json --profile --threads 1 --batch 3 --repeats 9", &rows);
    double sum = 0, percent = 0;
    assert_int_equal(cJSON_GetArraySize(rows), SPEED_STAGES + 1);
    for (int i = 0; i < SPEED_STAGES; i++) {
        const double ms = number_of(cJSON_GetArrayItem(rows, i), "ms");
        assert_true(ms >= 0 && (ms > 0 || i == SPEED_REST));
        sum += ms;
        percent += number_of(cJSON_GetArrayItem(rows, i), "percent");
    }
    assert_true(fabs(sum - number_of(cJSON_GetArrayItem(rows, SPEED_STAGES), "ms")) < 1e-3);
    assert_true(fabs(percent - 100) < 0.1);
    cJSON_Delete(object);
}

static void csv_has_a_line_a_result(void **state)
{
    char text[TEXT], words[2 * PATH_MAX], path[PATH_MAX], line[1024];
    int lines = 0;
    temp_path(*state, "speed.csv", path);
    snprintf(words, sizeof words, MODEL "--batch 1,2 --threads 1 --repeats 2 --csv %s", path);
    assert_int_equal(run_bench(words, text), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int commas = -1; fgets(line, sizeof line, file); lines++) {
        int count = 0;
        for (const char *c = line; *c; c++)
            count += *c == ',';
        assert_true(commas < 0 || commas == count);
        commas = count;
        assert_true(lines > 0 || strncmp(line, "device,backend,", 15) == 0);
    }
    fclose(file);
    assert_int_equal(lines, 3);
}

static void files_are_timed_to_pixels_and_to_embeddings(void **state)
{
    (void)state;
    const cJSON *rows;
    cJSON *object = run_json("--json --preprocess --resize 300x200 --repeats 3 " PHOTO, &rows);
    assert_int_equal(cJSON_GetArraySize(rows), 2);
    assert_true(number_of(cJSON_GetArrayItem(rows, 1), "median_ms") > 0);
    cJSON_Delete(object);
    object = run_json(MODEL "--json --end-to-end --batch 2 --threads 1 --repeats 2 " PHOTO, &rows);
    assert_int_equal(cJSON_GetArraySize(rows), 1);
    assert_true(number_of(cJSON_GetArrayItem(rows, 0), "files") == 8);
    assert_true(number_of(cJSON_GetArrayItem(rows, 0), "files_per_s") > 0);
    cJSON_Delete(object);
}

static void expect(int code, const char *part, const char *words)
{
    char text[TEXT];
    const int got = run_bench(words, text);
    if (got != code || !strstr(text, part))
        fail_msg("%s: exit code %d, expected %d and \"%s\":\n%s", words, got, code, part, text);
}

static void what_a_build_lacks_is_named(void **state)
{
    (void)state;
    expect(3, "int4", "2>&1 -m int4");
    expect(2, "usage:", "2>&1 " MODEL "--precision int4");
    expect(2, "usage:", "2>&1 " MODEL "--batch 0");
    expect(2, "usage:", "2>&1 --preprocess");
    expect(2, "usage:", "2>&1 " MODEL "--end-to-end");
    expect(1, "no_such.jpg", "2>&1 --preprocess --repeats 1 " PHOTO " no_such.jpg");
    expect(0, "usage:", "--help");
}

static void a_device_that_is_not_there_is_exit_3_with_its_name(void **state)
{
    (void)state;
    char text[TEXT];
    const int code = run_bench("2>&1 " MODEL "--device cuda --batch 1 --repeats 1", text);
    if (code == 0) {
        printf("note: there is a GPU here, so nothing is refused\n");
        skip();
    }
    assert_int_equal(code, 3);
    assert_true(strstr(text, "cuda") || strstr(text, "CUDA"));
}

/* The gate itself is a step of CI, on a release build; here, that it can fail. */
static void the_gate_notices_portable_code_on_a_better_cpu(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        setenv("FLATCLIP_CPU", "portable", 1);
        expect(1, "FAIL", "--gate");
        unsetenv("FLATCLIP_CPU");
        return;
    }
#endif
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_vit_b32_is_counted_as_published),
        cmocka_unit_test(encode_reports_every_batch_and_thread_count),
        cmocka_unit_test(stages_sum_to_the_whole),
        cmocka_unit_test_setup_teardown(csv_has_a_line_a_result, make_temp_folder,
                                        remove_temp_folder),
        cmocka_unit_test(files_are_timed_to_pixels_and_to_embeddings),
        cmocka_unit_test(what_a_build_lacks_is_named),
        cmocka_unit_test(a_device_that_is_not_there_is_exit_3_with_its_name),
        cmocka_unit_test(the_gate_notices_portable_code_on_a_better_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
