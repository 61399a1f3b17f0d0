/* The CPU kernels for any processor. */
#include "engine/cpu/vec_portable.h"
#include "engine/cpu/kernels_body.h"

const fc_cpu_kernels fc_cpu_kernels_portable = KERNEL_TABLE;

const fc_cpu_kernels *fc_cpu_kernels_for(fc_isa isa)
{
    switch (isa) {
    case FC_ISA_PORTABLE: return &fc_cpu_kernels_portable;
#if defined(__x86_64__)
    case FC_ISA_AVX2: return &fc_cpu_kernels_avx2;
    case FC_ISA_AVX512: return &fc_cpu_kernels_avx512;
#else
    default: break;
#endif
    }
    return NULL;
}
