/* Single conversions, and the choice of an instruction set for rows of them. */
#include "engine/base/half_body.h"

float fc_half_to_float(uint16_t half)
{
    return half_to_float(half);
}

float fc_bf16_to_float(uint16_t bf16)
{
    return bf16_to_float(bf16);
}

uint16_t fc_float_to_half(float value)
{
    return float_to_half(value);
}

uint16_t fc_float_to_bf16(float value)
{
    return float_to_bf16(value);
}

static const fc_half_kernels portable = { halves_to_floats, bf16s_to_floats, floats_to_halves,
                                          floats_to_bf16s };

static const fc_half_kernels *kernels(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return &fc_half_kernels_avx2;
#endif
    return &portable;
}

void fc_halves_to_floats(const uint16_t *in, size_t count, float *out)
{
    kernels()->halves_to_floats(in, count, out);
}

void fc_bf16s_to_floats(const uint16_t *in, size_t count, float *out)
{
    kernels()->bf16s_to_floats(in, count, out);
}

int fc_floats_to_halves(const float *in, size_t count, uint16_t *out)
{
    return kernels()->floats_to_halves(in, count, out);
}

void fc_floats_to_bf16s(const float *in, size_t count, uint16_t *out)
{
    kernels()->floats_to_bf16s(in, count, out);
}
