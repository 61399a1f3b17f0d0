/* Conversions between float32 and the 16-bit storage types, for whatever instruction set the file
 * that includes this is compiled for: half.c for all, half_avx2.c for AVX2.
 *
 * The idea: no branch depends on the value. Every case is computed and the right one selected, so
 * that the loops at the end vectorise on any instruction set. Only float operations on normal
 * numbers are used: a host program that flushes denormals cannot change a result. Every set gives
 * the same bits. */
#ifndef FC_HALF_BODY_H
#define FC_HALF_BODY_H

#include "engine/base/half.h"

#include <string.h>

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* yes where condition holds, else no: by masks, as compilers turn ?: back into branches. */
static inline uint32_t choose(int condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

static inline float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13; /* fraction where float32 has it */
    const uint32_t tiny_base = 113u << 23; /* 2^-14, the smallest normal half */

    const uint32_t normal = magnitude + (112u << 23);           /* exponent bias 15 to 127 */
    const uint32_t special = magnitude + (224u << 23);          /* infinity and NaN: 31 to 255 */
    /* A subnormal half is a fraction of 2^-14: put it below a 1 of that size, then take it away. */
    const uint32_t tiny = bits_of(float_of(magnitude + tiny_base) - float_of(tiny_base));

    const uint32_t finite = choose(magnitude < (1u << 23), tiny, normal);
    return float_of(sign | choose(magnitude >= (31u << 23), special, finite));
}

static inline uint16_t float_to_half(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;

    /* Adding just under half a unit, and the last bit kept, carries exactly when rounding to
     * nearest even goes up. Beyond the largest half the carry gives infinity by itself. */
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    /* 0.5 has units of 2^-24, as subnormal halves do: the addition rounds. */
    const uint32_t small = choose(magnitude < (113u << 23), magnitude, 0);
    const uint32_t tiny = bits_of(float_of(small) + 0.5f) - bits_of(0.5f);
    /* A NaN whose kept bits are all zero would read as infinity. */
    const uint32_t payload = magnitude >> 13 & 0x3ff;
    const uint32_t nan = 0x7c00 | choose(payload == 0, 0x200, payload);

    const uint32_t finite = choose(magnitude < (113u << 23), tiny, normal);
    const uint32_t ordered = choose(magnitude >= 0x477ff000, 0x7c00, finite); /* 65520 and above */
    return (uint16_t)(sign | choose(magnitude > 0x7f800000, nan, ordered));
}

static inline float bf16_to_float(uint16_t bf16)
{
    return float_of((uint32_t)bf16 << 16);
}

static inline uint16_t float_to_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    /* A NaN whose kept bits are all zero would read as infinity. */
    const uint32_t nan = bits >> 16 | choose((bits >> 16 & 0x7f) == 0, 0x40, 0);
    return (uint16_t)choose((bits & 0x7fffffff) > 0x7f800000, nan, rounded);
}

/* -- Rows ------------------------------------------------------------------------------------ */

static void halves_to_floats(const uint16_t *restrict in, size_t count, float *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = half_to_float(in[i]);
}

static void bf16s_to_floats(const uint16_t *restrict in, size_t count, float *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = bf16_to_float(in[i]);
}

/* Whether each value is 0 or a normal half: most blocks of most models hold nothing else. */
static int are_plain_halves(const float *in, size_t count)
{
    uint32_t lost = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of(in[i]), magnitude = bits & 0x7fffffff;
        const int32_t above = (int32_t)magnitude - (113 << 23); /* 2^-14, the smallest normal */
        const int32_t below = (int32_t)magnitude - (143 << 23); /* 2^16, beyond the largest */
        const uint32_t normal = (uint32_t)(~above & below) & 0x80000000;
        lost |= (bits & 0x1fff) | choose(magnitude == 0, 0, normal ^ 0x80000000);
    }
    return !lost;
}

/* One of those. */
static inline uint16_t plain_half(float value)
{
    const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
    return (uint16_t)((bits >> 16 & 0x8000) |
                      choose(magnitude == 0, 0, (magnitude >> 13) - (112 << 10)));
}

static int floats_to_halves(const float *restrict in, size_t count, uint16_t *restrict out)
{
    enum { BLOCK = 1024 };
    int exact = 1;
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t left = count - first, now = left < BLOCK ? left : BLOCK;
        const int plain = are_plain_halves(in + first, now);
        for (size_t i = first; plain && i < first + now; i++)
            out[i] = plain_half(in[i]);
        for (size_t i = first; !plain && i < first + now; i++)
            out[i] = float_to_half(in[i]);
        exact &= plain;
    }
    return exact;
}

static void floats_to_bf16s(const float *restrict in, size_t count, uint16_t *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = float_to_bf16(in[i]);
}

/* The rows' conversions of one instruction set. */
typedef struct {
    void (*halves_to_floats)(const uint16_t *in, size_t count, float *out);
    void (*bf16s_to_floats)(const uint16_t *in, size_t count, float *out);
    int (*floats_to_halves)(const float *in, size_t count, uint16_t *out);
    void (*floats_to_bf16s)(const float *in, size_t count, uint16_t *out);
} fc_half_kernels;

extern const fc_half_kernels fc_half_kernels_avx2;

#endif
