/* Rows of conversions for AVX2. Elsewhere than on x86-64 this file is empty. */
#if defined(__x86_64__)
#include "engine/base/half_body.h"

const fc_half_kernels fc_half_kernels_avx2 = { halves_to_floats, bf16s_to_floats, floats_to_halves,
                                               floats_to_bf16s };
#endif
