/* The CPU kernels of every instruction set of this machine, against plain double arithmetic. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/cpu/cpu_kernels.h"

enum { SEED = 20261201, DEPTH = 3072, WIDTH = 768, KEYS = 577 };

static uint64_t random_state = SEED;

static float random_float(void) /* in -1..1 */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) / 2147483648.0f;
}

static float *random_floats(size_t count, float scale)
{
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = scale * random_float();
    return values;
}

static void for_each_isa(void (*check)(const fc_cpu_kernels *k, const char *isa))
{
    for (int isa = FC_ISA_PORTABLE; isa <= FC_ISA_AVX512; isa++) {
        if (fc_isa_supported((fc_isa)isa))
            check(fc_cpu_kernels_for((fc_isa)isa), fc_isa_name((fc_isa)isa));
        else
            printf("this CPU has no %s: its kernels are not tested here\n",
                   fc_isa_name((fc_isa)isa));
    }
}

static void check_tile(const fc_cpu_kernels *k, const char *isa)
{
    const size_t stride = DEPTH + 16;
    float *a = random_floats(14 * stride, 1.0f);
    float *b = random_floats((size_t)DEPTH * (size_t)k->panel, 1.0f);
    float sums[FC_MAX_TILE_ROWS * FC_MAX_PANEL], alone[FC_MAX_PANEL];

    for (int rows = 1; rows <= k->tile_rows; rows++) {
        k->tile(rows, DEPTH, a, stride, b, (size_t)k->panel, sums, NULL);
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < k->panel; c++) {
                double sum = 0, size = 0;
                for (int i = 0; i < DEPTH; i++) {
                    const double term =
                        (double)a[(size_t)r * stride + (size_t)i] * b[i * k->panel + c];
                    sum += term;
                    size += fabs(term);
                }
                if (fabs(sum - sums[r * k->panel + c]) > size * 1e-5)
                    fail_msg("%s: row %d of %d, column %d", isa, r, rows, c);
            }
            /* A row's bits do not depend on the rows beside it. */
            k->tile(1, DEPTH, a + (size_t)r * stride, stride, b, (size_t)k->panel, alone, b);
            assert_memory_equal(alone, sums + r * k->panel, (size_t)k->panel * sizeof(float));
        }
    }
    free(b);
    free(a);
}

static void tile_equals_double_sums_at_every_height(void **state)
{
    (void)state;
    for_each_isa(check_tile);
}

static double epilogue_of(fc_epilogue epilogue, double sum, double bias, double old)
{
    const double x = sum + bias;
    switch (epilogue) {
    case FC_PLAIN: return sum;
    case FC_BIAS: return x;
    case FC_BIAS_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case FC_BIAS_GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case FC_BIAS_RESIDUAL: return old + x;
    }
    return NAN;
}

static void check_finish(const fc_cpu_kernels *k, const char *isa)
{
    float sums[FC_MAX_TILE_ROWS * FC_MAX_PANEL], bias[FC_MAX_PANEL], out[3 * 40], old[3 * 40];
    for (int epilogue = FC_PLAIN; epilogue <= FC_BIAS_RESIDUAL; epilogue++)
        for (int columns = 1; columns <= k->panel; columns++)
            for (float scale = 0.01f; scale < 50; scale *= 7) {
                for (int i = 0; i < 3 * k->panel; i++)
                    sums[i] = scale * random_float();
                for (int i = 0; i < k->panel; i++)
                    bias[i] = scale * random_float();
                for (int i = 0; i < 3 * 40; i++)
                    old[i] = out[i] = random_float();
                k->finish((fc_epilogue)epilogue, 3, columns, sums, bias, out, 40);
                for (int i = 0; i < 3 * 40; i++) {
                    const int r = i / 40, c = i % 40;
                    if (c >= columns) { /* not ours to write */
                        assert_memory_equal(&out[i], &old[i], sizeof(float));
                        continue;
                    }
                    const double want = epilogue_of((fc_epilogue)epilogue, sums[r * k->panel + c],
                                                    epilogue == FC_PLAIN ? 0 : bias[c], old[i]);
                    if (!(fabs(out[i] - want) <= 3e-7 * (1 + fabs(want) + scale)))
                        fail_msg("%s: epilogue %d, scale %g: %.9g, expected %.9g", isa, epilogue,
                                 scale, out[i], want);
                }
            }
}

static void epilogues_equal_their_formulas_and_stay_in_their_columns(void **state)
{
    (void)state;
    for_each_isa(check_finish);
}

static void check_exp(const fc_cpu_kernels *k, const char *isa)
{
    enum { COUNT = 1 << 16 };
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    assert_non_null(x);
    assert_non_null(y);
    for (int i = 0; i < COUNT; i++)
        x[i] = -87.0f + 175.0f * (float)i / COUNT;
    k->exp(COUNT, x, y);
    for (int i = 0; i < COUNT; i++)
        if (!(fabs(y[i] / exp(x[i]) - 1) < 2.5e-7))
            fail_msg("%s: exp(%.9g) is %.9g, expected %.9g", isa, x[i], y[i], exp(x[i]));

    const float odd[16] = { NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 0.0f, -0.0f };
    k->exp(16, odd, y);
    assert_true(isnan(y[0]));
    assert_true(y[1] > 1e38f && isfinite(y[1]));
    assert_true(y[2] >= 0 && y[2] < 2e-38f);
    assert_true(y[5] == 1.0f && y[6] == 1.0f);
    free(y);
    free(x);
}

static void exp_is_right_to_two_units_and_lets_nan_through(void **state)
{
    (void)state;
    for_each_isa(check_exp);
}

static void check_layernorm(const fc_cpu_kernels *k, const char *isa)
{
    float *x = random_floats(3 * WIDTH, 2.0f), *gain = random_floats(WIDTH, 1.0f);
    float *bias = random_floats(WIDTH, 1.0f), *out = random_floats(3 * WIDTH, 1.0f);
    for (int i = 0; i < WIDTH; i++)
        x[i] += 40.0f; /* a mean far from 0: sums of squares alone would lose it */
    x[WIDTH + 92] = 300.0f; /* an outlier channel, as trained models have */

    k->layernorm(3, WIDTH, x, WIDTH, gain, bias, out, WIDTH);
    for (int r = 0; r < 3; r++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < WIDTH; i++)
            mean += x[r * WIDTH + i] / (double)WIDTH;
        for (int i = 0; i < WIDTH; i++)
            variance += pow(x[r * WIDTH + i] - mean, 2) / WIDTH;
        for (int i = 0; i < WIDTH; i++) {
            const double want =
                (x[r * WIDTH + i] - mean) / sqrt(variance + 1e-5) * gain[i] + bias[i];
            if (!(fabs(out[r * WIDTH + i] - want) < 1e-5))
                fail_msg("%s: row %d, column %d: %.9g, expected %.9g", isa, r, i,
                         out[r * WIDTH + i], want);
        }
    }
    free(out);
    free(bias);
    free(gain);
    free(x);
}

static void layernorm_equals_its_formula(void **state)
{
    (void)state;
    for_each_isa(check_layernorm);
}

static void check_softmax(const fc_cpu_kernels *k, const char *isa)
{
    for (int count = 1; count <= KEYS; count += count < 70 ? 1 : 101) {
        const int padded = (count + k->panel - 1) / k->panel * k->panel;
        float *scores = random_floats((size_t)padded, 100.0f);
        float *before = malloc((size_t)padded * sizeof(float));
        assert_non_null(before);
        memcpy(before, scores, (size_t)padded * sizeof(float));
        for (int i = count; i < padded; i++)
            scores[i] = NAN; /* the padding must not matter */
        k->softmax(1, count, padded, 0.125f, scores, (size_t)padded);

        double top = -INFINITY, sum = 0;
        for (int i = 0; i < count; i++)
            top = fmax(top, before[i]);
        for (int i = 0; i < count; i++)
            sum += exp((before[i] - top) / 8);
        for (int i = 0; i < count; i++)
            if (!(fabs(scores[i] - exp((before[i] - top) / 8) / sum) < 1e-6))
                fail_msg("%s: score %d of %d", isa, i, count);
        for (int i = count; i < padded; i++)
            assert_true(scores[i] == 0.0f);
        free(before);
        free(scores);
    }
}

static void softmax_equals_its_formula_for_every_count(void **state)
{
    (void)state;
    for_each_isa(check_softmax);
}

static void check_unit_row(const fc_cpu_kernels *k, const char *isa)
{
    (void)isa;
    float *x = random_floats(512, 1e-3f), zero[64] = { 0 }, out[64];
    k->unit_row(512, x, x);
    double length = 0;
    for (int i = 0; i < 512; i++)
        length += (double)x[i] * x[i];
    assert_true(fabs(length - 1) < 1e-6);

    k->unit_row(64, zero, out);
    assert_true(isnan(out[0]) && isnan(out[63]));
    zero[5] = 3e38f; /* its square overflows: no direction, not a row of zeros */
    k->unit_row(64, zero, out);
    assert_true(isnan(out[0]) && isnan(out[5]));
    free(x);
}

static void unit_row_has_length_one_or_is_nan(void **state)
{
    (void)state;
    for_each_isa(check_unit_row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_equals_double_sums_at_every_height),
        cmocka_unit_test(epilogues_equal_their_formulas_and_stay_in_their_columns),
        cmocka_unit_test(exp_is_right_to_two_units_and_lets_nan_through),
        cmocka_unit_test(layernorm_equals_its_formula),
        cmocka_unit_test(softmax_equals_its_formula_for_every_count),
        cmocka_unit_test(unit_row_has_length_one_or_is_nan),
    };
    printf("random numbers from seed %d\n", SEED);
    return cmocka_run_group_tests_name("cpu_kernels", tests, NULL, NULL);
}
