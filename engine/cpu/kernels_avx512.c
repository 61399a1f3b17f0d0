/* The CPU kernels for processors with AVX-512. Only called when the CPU has it. */
#if defined(__x86_64__)
#include "engine/cpu/vec_avx512.h"
#include "engine/cpu/kernels_body.h"

const fc_cpu_kernels fc_cpu_kernels_avx512 = KERNEL_TABLE;
#endif
