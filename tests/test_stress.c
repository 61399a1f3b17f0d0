/* flatclip-stress tells memory that grows from memory that does not: its trend on made-up numbers,
 * and the program itself with and without a planted leak. */
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

#include "bench/stress/stress_trend.h"
#include "tests/program_output.h"
#include "tests/temp_folder.h"

/* -- The trend --------------------------------------------------------------------------------- */

enum { RUN = 10000, PAGE = 4096, LEVEL = 60 << 20, SERIES = 200 };

static uint64_t random_state = 88172645463325252u;

static double uniform(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (double)((random_state * 2685821657736338717u) >> 40) / (1 << 24);
}

typedef double stress_series(long i, double *state);

/* Noise around a level, with neighbours alike: what a machine with other programs on it shows. */
static double noise(long i, double *state)
{
    (void)i;
    *state = 0.98 * *state + (uniform() - 0.5) * 10 * PAGE;
    return *state;
}

/* A random walk: as likely to fall as to rise, and far from its start in the end. */
static double walk(long i, double *state)
{
    (void)i;
    return *state += (uniform() - 0.5) * 20 * PAGE;
}

/* Steps of 4 MiB at a few random times, which stay; the first call of a run draws the times. */
static double steps(long i, double *state)
{
    static long at[5];
    if (i == 0)
        for (int k = 0; k < 5; k++)
            at[k] = (long)(uniform() * RUN);
    for (int k = 0; k < 5; k++)
        *state += i == at[k] ? 4 << 20 : 0;
    return *state;
}

static double page_leak(long i, double *state)
{
    return noise(i, state) + (double)i * PAGE;
}

/* How many of many series are called growing. */
static int count_alarms(stress_series *series, long length, long room)
{
    int alarms = 0;
    for (int n = 0; n < SERIES; n++) {
        stress_trend trend;
        double state = 0;
        assert_true(stress_trend_open(&trend, room));
        for (long i = 0; i < length; i++)
            stress_trend_add(&trend, (size_t)(LEVEL + LEVEL / 2 + series(i, &state)));
        const stress_slope slope = stress_trend_fit(&trend);
        assert_true(slope.known);
        assert_true(slope.low <= slope.slope && slope.slope <= slope.high);
        alarms += slope.grows;
        stress_trend_close(&trend);
    }
    return alarms;
}

static void noise_walks_and_steps_are_no_growth(void **state)
{
    (void)state;
    assert_int_equal(count_alarms(noise, RUN, 1 << 14), 0);
    assert_int_equal(count_alarms(steps, RUN, 1 << 14), 0);
    assert_in_range(count_alarms(walk, RUN, 1 << 14), 0, 2); /* 0.014 % each are left to chance */
}

static void a_page_an_iteration_is_growth_in_every_series(void **state)
{
    (void)state;
    assert_int_equal(count_alarms(page_leak, RUN, 1 << 14), SERIES);
    assert_int_equal(count_alarms(page_leak, 1500, 1 << 14), SERIES);
}

static void a_long_run_is_thinned_out_and_keeps_its_slope(void **state)
{
    (void)state;
    stress_trend trend;
    assert_true(stress_trend_open(&trend, 256));
    for (long i = 0; i < RUN; i++)
        stress_trend_add(&trend, (size_t)(LEVEL + i * 100));
    assert_in_range(trend.count, 128, 256);
    const stress_slope slope = stress_trend_fit(&trend);
    assert_true(slope.known && slope.grows && fabs(slope.slope - 100) < 1);
    stress_trend_close(&trend);
}

static void too_few_iterations_have_no_trend(void **state)
{
    (void)state;
    stress_trend trend;
    assert_true(stress_trend_open(&trend, 256));
    for (long i = 0; i < STRESS_TREND_LEAST - 1; i++)
        stress_trend_add(&trend, (size_t)(LEVEL + i * PAGE));
    const stress_slope slope = stress_trend_fit(&trend);
    assert_true(!slope.known && !slope.grows);
    stress_trend_close(&trend);
}

/* -- The program ------------------------------------------------------------------------------- */

/* Runs a program with the arguments in words; what it printed is in text. Returns its exit code. */
static int run_stress(const char *program, const char *words, char text[TEXT])
{
    char command[4 * PATH_MAX];
    snprintf(command, sizeof command, "%s 2>&1 %s", program, words);
    return run_command(command, text);
}

static const char *stress_path(char path[PATH_MAX])
{
    const char *bin = getenv("BIN");
    snprintf(path, PATH_MAX, "%s/flatclip-stress", bin && *bin ? bin : "build");
    return path;
}

/* The variant with a leak: beside this test, in the same configuration's folder. */
static const char *leaky_path(char path[PATH_MAX])
{
    char self[PATH_MAX - 64];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    for (int i = 0; i < 2; i++)
        *strrchr(self, '/') = '\0';
    snprintf(path, PATH_MAX, "%s/planted/flatclip-stress", self);
    return path;
}

static void expect(int code, const char *part, int got, const char *text)
{
    if (got != code || !strstr(text, part))
        fail_msg("exit code %d, expected %d and \"%s\":\n%s", got, code, part, text);
}

#define MODEL "-m build/models/tiny.safetensors "

static void a_run_passes_and_writes_every_iteration(void **state)
{
    char text[TEXT], words[PATH_MAX + 200], csv[PATH_MAX], path[PATH_MAX], line[256];
    int lines = 0;
    temp_path(*state, "memory.csv", csv);
    snprintf(words, sizeof words,
             MODEL "--no-faults --iterations 60 --seed 7 --sessions 3 --threads 2 --csv %s", csv);
    const int code = run_stress(stress_path(path), words, text);
    expect(0, "PASS: 60 iterations", code, text);
    expect(0, "seed 7", code, text);
    FILE *file = fopen(csv, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        lines++;
    fclose(file);
    assert_int_equal(lines, 61);
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void the_same_seed_does_the_same(void **state)
{
    (void)state;
    char text[2][TEXT], path[PATH_MAX];
    cJSON *verdict[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_stress(stress_path(path),
                                    MODEL "--no-faults --json --iterations 40 --seed 5 2>/dev/null",
                                    text[i]), 0);
        verdict[i] = cJSON_Parse(text[i]);
        assert_non_null(verdict[i]);
    }
    static const char *const names[] = { "images", "refused", "seed", "iterations" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(number_of(verdict[0], names[i]) == number_of(verdict[1], names[i]));
    assert_string_equal(cJSON_GetObjectItem(verdict[0], "verdict")->valuestring, "PASS");
    cJSON_Delete(verdict[0]);
    cJSON_Delete(verdict[1]);
}

static void a_planted_leak_fails_and_names_the_iteration(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *says;
    } leaks[] = {
        { "heap", "FAIL: iteration 41: heap bytes grew from" },
        { "descriptor", "FAIL: iteration 41: open descriptors grew from" },
        { "thread", "FAIL: iteration 41: " }, /* its stack and the heap that belongs to it, too */
    };
    char text[TEXT], path[PATH_MAX];
    setenv("FLATCLIP_LEAK_FROM", "41", 1);
    for (size_t i = 0; i < sizeof leaks / sizeof *leaks; i++) {
        setenv("FLATCLIP_LEAK", leaks[i].kind, 1);
        const int code = run_stress(leaky_path(path),
                                    MODEL "--no-faults --iterations 60 --seed 3", text);
        expect(1, leaks[i].says, code, text);
    }
    unsetenv("FLATCLIP_LEAK");
    unsetenv("FLATCLIP_LEAK_FROM");
}

static void faults_give_clean_errors(void **state)
{
    (void)state;
    char text[TEXT], path[PATH_MAX];
    const int code = run_stress(stress_path(path),
                                "-m build/models/micro.safetensors --faults --seed 1", text);
    expect(0, "faults: PASS", code, text);
    expect(0, "exit code 3 and no file left", code, text);
    expect(0, "no half file", code, text);
}

/* From a folder without the tests' pictures the program makes its own, so nothing is skipped; with
 * no picture at all it says what was. */
static void faults_far_from_the_tests_are_skipped_by_name_or_not_at_all(void **state)
{
    const temp_folder *empty = *state;
    char text[TEXT], path[PATH_MAX], here[PATH_MAX / 2], program[2 * PATH_MAX], words[PATH_MAX];
    assert_non_null(getcwd(here, sizeof here));
    stress_path(path);
    snprintf(program, sizeof program, "cd / && %s%s%s", path[0] == '/' ? "" : here,
             path[0] == '/' ? "" : "/", path);
    int code = run_stress(program, "--faults --seed 1", text);
    expect(0, "made for this run", code, text);
    expect(0, "full disks: exit code 3", code, text);
    expect(0, "no half file", code, text);
    snprintf(words, sizeof words, "--faults --seed 1 %s", empty->path);
    code = run_stress(program, words, text);
    expect(0, "signals: skipped: needs at least one picture", code, text);
    expect(0, "kinds skipped", code, text);
}

static void wrong_usage_and_models_are_told_apart(void **state)
{
    (void)state;
    char text[TEXT], path[PATH_MAX];
    const char *program = stress_path(path);
    expect(2, "usage:", run_stress(program, "--iterations 0", text), text);
    expect(2, "usage:", run_stress(program, "--faults --no-faults", text), text);
    expect(3, "nothing.safetensors", run_stress(program, "-m nothing.safetensors", text), text);
    expect(0, "usage:", run_stress(program, "--help", text), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_walks_and_steps_are_no_growth),
        cmocka_unit_test(a_page_an_iteration_is_growth_in_every_series),
        cmocka_unit_test(a_long_run_is_thinned_out_and_keeps_its_slope),
        cmocka_unit_test(too_few_iterations_have_no_trend),
        cmocka_unit_test_setup_teardown(a_run_passes_and_writes_every_iteration, make_temp_folder,
                                        remove_temp_folder),
        cmocka_unit_test(the_same_seed_does_the_same),
        cmocka_unit_test(a_planted_leak_fails_and_names_the_iteration),
        cmocka_unit_test(faults_give_clean_errors),
        cmocka_unit_test_setup_teardown(
            faults_far_from_the_tests_are_skipped_by_name_or_not_at_all, make_temp_folder,
            remove_temp_folder),
        cmocka_unit_test(wrong_usage_and_models_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
