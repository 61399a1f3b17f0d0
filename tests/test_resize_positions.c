/* resize_positions.c against torch: tests/data/positions.safetensors holds random grids of width 8
 * and what open_clip 3.3's resize_pos_embed makes of them with torch 2.15, in float32. */
#define _GNU_SOURCE
#include "tests/counting_malloc.h"

#include <math.h>

#include "tests/golden.h"
#include "weights_tools/resize_positions.h"

enum { WIDTH = 8 };

static size_t numbers(int grid)
{
    return (size_t)(1 + grid * grid) * WIDTH;
}

/* A copy of its exact size, so that sanitizers see a read beyond it. */
static float *copy_golden(const golden *g, const char *name, int grid)
{
    size_t bytes = 0;
    const void *data = golden_tensor(g, name, "F32", &bytes);
    assert_non_null(data);
    assert_int_equal(bytes, numbers(grid) * sizeof(float));
    return memcpy(malloc(bytes), data, bytes);
}

static void resized_grids_equal_those_of_torch(void **state)
{
    (void)state;
    static const struct { int from, to; } cases[] = { { 7, 14 }, { 14, 7 }, { 24, 16 }, { 16, 24 },
                                                      { 7, 7 }, { 24, 7 }, { 7, 16 } };
    golden g = golden_open("tests/data/positions.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char from_name[32], to_name[32];
        double worst = 0;
        snprintf(from_name, sizeof from_name, "grid_%d", cases[i].from);
        snprintf(to_name, sizeof to_name, "from_%d_to_%d", cases[i].from, cases[i].to);
        float *from = copy_golden(&g, from_name, cases[i].from);
        float *expected = copy_golden(&g, to_name, cases[i].to);
        float *to = malloc(numbers(cases[i].to) * sizeof *to);
        assert_int_equal(fc_resize_positions(from, cases[i].from, to, cases[i].to, WIDTH, NULL),
                         FLATCLIP_OK);
        assert_memory_equal(to, from, WIDTH * sizeof *to); /* the class token's */
        for (size_t k = 0; k < numbers(cases[i].to); k++)
            worst = fmax(worst, fabs((double)to[k] - expected[k]) / fmax(1, fabs(expected[k])));
        print_message("%d to %d: %.2g\n", cases[i].from, cases[i].to, worst);
        assert_true(worst <= 1e-6);
        free(from);
        free(expected);
        free(to);
    }
    golden_close(&g);
}

static void equal_grids_are_copied_bit_by_bit(void **state)
{
    (void)state;
    float from[5 * WIDTH], to[5 * WIDTH];
    memset(from, 0x80, sizeof from); /* small negative numbers */
    from[9] = -0.0f;
    assert_int_equal(fc_resize_positions(from, 2, to, 2, WIDTH, NULL), FLATCLIP_OK);
    assert_memory_equal(from, to, sizeof from);
}

/* Whatever the grids, weights add up to one, and a mirrored grid gives a mirrored result. */
static void constants_stay_and_mirrors_commute_at_any_size(void **state)
{
    (void)state;
    for (int from_grid = 1; from_grid <= 20; from_grid++)
        for (int to_grid = 1; to_grid <= 20; to_grid++) {
            enum { TWO = 2 };
            const int a = from_grid, b = to_grid;
            float *from = malloc((size_t)(1 + a * a) * TWO * sizeof *from);
            float *to = malloc((size_t)(1 + b * b) * TWO * sizeof *to);
            for (int i = 0; i < 1 + a * a; i++) {
                from[TWO * i] = 3.5f;
                from[TWO * i + 1] = i ? (float)((i - 1) / a + (i - 1) % a) : 0; /* row + column */
            }
            assert_int_equal(fc_resize_positions(from, a, to, b, TWO, NULL), FLATCLIP_OK);
            for (int i = 0; i < b * b; i++) {
                const float here = to[TWO * (i + 1) + 1], there = to[TWO * (b * b - i) + 1];
                assert_true(to[TWO * (i + 1)] == 3.5f);
                assert_true(fabsf(here + there - (float)(2 * (a - 1))) < 2e-5f * (float)a);
            }
            free(from);
            free(to);
        }
}

static void impossible_grids_are_refused(void **state)
{
    (void)state;
    static const int cases[][3] = { { 0, 7, 8 }, { 7, 0, 8 }, { 7, 7, 0 }, { -1, 7, 8 },
                                    { 4097, 7, 8 }, { 7, 4097, 8 }, { 7, 7, -8 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float from = 0, to = 0;
        flatclip_error err;
        assert_int_equal(fc_resize_positions(&from, cases[i][0], &to, cases[i][1], cases[i][2],
                                             &err), FLATCLIP_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, "grids from 1 to 4096"));
    }
}

#if CAN_INTERPOSE
static void a_failing_allocation_is_reported_and_nothing_kept(void **state)
{
    (void)state;
    static float from[50 * WIDTH], to[197 * WIDTH];
    int failed = 0;
    for (flatclip_status status = FLATCLIP_ERR_MEMORY; status != FLATCLIP_OK; failed++) {
        flatclip_error err = { FLATCLIP_OK, "" };
        const long blocks = atomic_load(&live_blocks), bytes = atomic_load(&live_bytes);
        atomic_store(&until_failure, failed);
        status = fc_resize_positions(from, 7, to, 14, WIDTH, &err);
        atomic_store(&until_failure, NEVER);
        check_balance("positions", blocks, bytes);
        if (status != FLATCLIP_OK)
            assert_int_equal(status, FLATCLIP_ERR_MEMORY);
        assert_true(status == FLATCLIP_OK || strstr(err.message, "no memory to resize"));
    }
    assert_int_equal(failed - 1, 3);
}
#else
#define a_failing_allocation_is_reported_and_nothing_kept \
    allocations_are_counted_in_builds_without_sanitizers
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resized_grids_equal_those_of_torch),
        cmocka_unit_test(equal_grids_are_copied_bit_by_bit),
        cmocka_unit_test(constants_stay_and_mirrors_commute_at_any_size),
        cmocka_unit_test(impossible_grids_are_refused),
        cmocka_unit_test(a_failing_allocation_is_reported_and_nothing_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
