/* Which instruction set to use. */
#include "engine/base/cpu_features.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "portable", "avx2", "avx512" };

const char *fc_isa_name(fc_isa isa)
{
    return names[isa];
}

int fc_isa_supported(fc_isa isa)
{
#if defined(__x86_64__)
    /* These ask the operating system too: it must save the wide registers. */
    __builtin_cpu_init();
    if (isa == FC_ISA_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == FC_ISA_AVX512)
        return fc_isa_supported(FC_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return isa == FC_ISA_PORTABLE;
}

flatclip_status fc_isa_choose(fc_isa *isa, flatclip_error *err)
{
    const char *wanted = getenv("FLATCLIP_CPU");
    for (int i = FC_ISA_AVX512; i >= FC_ISA_PORTABLE; i--) {
        if (wanted && *wanted && strcmp(wanted, names[i]) != 0)
            continue;
        if (fc_isa_supported((fc_isa)i)) {
            *isa = (fc_isa)i;
            return FLATCLIP_OK;
        }
        if (wanted && *wanted)
            return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE,
                           "FLATCLIP_CPU asks for %s, which this CPU does not have", wanted);
    }
    return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                   "FLATCLIP_CPU is '%s', expected portable, avx2 or avx512", wanted);
}
