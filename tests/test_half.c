/* half.c: every half, every tie between two of them, and the ends of the range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/base/half.h"

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void every_half_has_the_value_of_its_bits(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 0x10000; half++) {
        const int exponent = half >> 10 & 31, fraction = half & 0x3ff;
        const float value = fc_half_to_float((uint16_t)half);
        float expected = exponent ? ldexpf((float)(fraction | 0x400), exponent - 25)
                                  : ldexpf((float)fraction, -24);
        if (exponent == 31)
            expected = INFINITY;
        if (exponent == 31 && fraction)
            assert_true(isnan(value));
        else
            assert_true(value == (half & 0x8000 ? -expected : expected));
        assert_int_equal(!!signbit(value), half >> 15);
    }
}

static void every_half_survives_the_round_trip(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 0x10000; half++)
        assert_int_equal(fc_float_to_half(fc_half_to_float((uint16_t)half)), half);
}

static void every_bf16_survives_the_round_trip(void **state)
{
    (void)state;
    for (unsigned bf16 = 0; bf16 < 0x10000; bf16++)
        assert_int_equal(fc_float_to_bf16(fc_bf16_to_float((uint16_t)bf16)), bf16);
}

static void a_tie_between_halves_goes_to_the_even_one(void **state)
{
    (void)state;
    for (unsigned low = 0; low < 0x7bff; low++) {
        const float middle = (fc_half_to_float((uint16_t)low) +
                              fc_half_to_float((uint16_t)(low + 1))) / 2; /* exact in float32 */
        const unsigned even = low & 1 ? low + 1 : low;
        assert_int_equal(fc_float_to_half(middle), even);
        assert_int_equal(fc_float_to_half(-middle), even | 0x8000);
        assert_int_equal(fc_float_to_half(nextafterf(middle, 0)), low);
        assert_int_equal(fc_float_to_half(nextafterf(middle, INFINITY)), low + 1);
    }
}

static void a_tie_between_bf16s_goes_to_the_even_one(void **state)
{
    (void)state;
    for (uint32_t low = 0; low < 0x7f80; low++) {
        const uint32_t middle = low << 16 | 0x8000, even = low & 1 ? low + 1 : low;
        assert_int_equal(fc_float_to_bf16(from_bits(middle)), even);
        assert_int_equal(fc_float_to_bf16(from_bits(middle - 1)), low);
        assert_int_equal(fc_float_to_bf16(from_bits(middle + 1)), low + 1);
    }
}

static void values_beyond_the_largest_half_become_infinite(void **state)
{
    (void)state;
    assert_int_equal(fc_float_to_half(65504.0f), 0x7bff);
    assert_int_equal(fc_float_to_half(nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(fc_float_to_half(65520.0f), 0x7c00);
    assert_int_equal(fc_float_to_half(3e38f), 0x7c00);
    assert_int_equal(fc_float_to_half(-INFINITY), 0xfc00);
    assert_int_equal(fc_float_to_bf16(from_bits(0x7f7fffff)), 0x7f80);
}

static void a_nan_never_becomes_infinite(void **state)
{
    (void)state;
    /* Payloads that lie entirely in the bits that are dropped. */
    assert_true(isnan(fc_half_to_float(fc_float_to_half(from_bits(0x7f800001)))));
    assert_true(isnan(fc_half_to_float(fc_float_to_half(from_bits(0xff801fff)))));
    assert_true(isnan(fc_bf16_to_float(fc_float_to_bf16(from_bits(0x7f800001)))));
    assert_true(isnan(fc_bf16_to_float(fc_float_to_bf16(from_bits(0x7fffffff)))));
}

static void rows_equal_single_values_at_every_length(void **state)
{
    enum { MOST = 67 };
    uint16_t stored[MOST] = { 0 }, back[MOST];
    float values[MOST];
    (void)state;
    for (size_t count = 0; count <= MOST; count++) {
        for (size_t i = 0; i < count; i++)
            stored[i] = (uint16_t)(i * 40503 + count * 977);
        fc_halves_to_floats(stored, count, values);
        fc_floats_to_halves(values, count, back);
        for (size_t i = 0; i < count; i++) {
            const float single = fc_half_to_float(stored[i]);
            assert_memory_equal(&values[i], &single, sizeof single);
            assert_int_equal(back[i], stored[i]);
        }
        fc_bf16s_to_floats(stored, count, values);
        fc_floats_to_bf16s(values, count, back);
        for (size_t i = 0; i < count; i++) {
            const float single = fc_bf16_to_float(stored[i]);
            assert_memory_equal(&values[i], &single, sizeof single);
            assert_int_equal(back[i], stored[i]);
        }
    }
}

/* Rows are converted in blocks, of which those of plain halves take a shorter way: the same numbers
 * as one by one, and nothing is called exact that is not. */
static void rows_of_plain_halves_are_exact_and_no_others(void **state)
{
    enum { MOST = 3000 };
    static float values[MOST];
    static uint16_t back[MOST];
    static const float others[] = { 65504.0f, 65520.0f, 6.1035156e-5f, 6.1e-5f, 5.9604645e-8f, 1e-30f,
                                    1.0009764f, 1.001f, INFINITY, NAN, -0.0f, 3e38f };
    static const int is_plain[] = { 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0 };
    (void)state;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        for (size_t place = 0; place < MOST; place += 997) {
            for (size_t i = 0; i < MOST; i++)
                values[i] = fc_half_to_float((uint16_t)(0x0400 + i * 40503 % 0x7800));
            values[place] = k % 2 ? -others[k] : others[k];
            assert_int_equal(fc_floats_to_halves(values, MOST, back), is_plain[k]);
            for (size_t i = 0; i < MOST; i++)
                assert_int_equal(back[i], fc_float_to_half(values[i]));
        }
    for (size_t first = 0; first < 0x10000; first += MOST) { /* every half, the odd ones too */
        for (size_t i = 0; i < MOST; i++)
            values[i] = fc_half_to_float((uint16_t)(first + i));
        fc_floats_to_halves(values, MOST, back);
        for (size_t i = 0; i < MOST; i++)
            assert_int_equal(back[i], (uint16_t)(first + i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_has_the_value_of_its_bits),
        cmocka_unit_test(every_half_survives_the_round_trip),
        cmocka_unit_test(every_bf16_survives_the_round_trip),
        cmocka_unit_test(a_tie_between_halves_goes_to_the_even_one),
        cmocka_unit_test(a_tie_between_bf16s_goes_to_the_even_one),
        cmocka_unit_test(values_beyond_the_largest_half_become_infinite),
        cmocka_unit_test(a_nan_never_becomes_infinite),
        cmocka_unit_test(rows_of_plain_halves_are_exact_and_no_others),
        cmocka_unit_test(rows_equal_single_values_at_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
