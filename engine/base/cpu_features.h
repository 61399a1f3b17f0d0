/* Which instruction set to use: found once, when a model is loaded, and carried from there. */
#ifndef FC_CPU_FEATURES_H
#define FC_CPU_FEATURES_H

#include "engine/base/error.h"

typedef enum {
    FC_ISA_PORTABLE = 0, /* plain C on 16-byte vectors: SSE2 on x86-64 */
    FC_ISA_AVX2 = 1,     /* AVX2, FMA */
    FC_ISA_AVX512 = 2    /* AVX-512 F, BW, DQ, VL */
} fc_isa;

/* The best that this CPU and its operating system support, or what the environment variable
 * FLATCLIP_CPU (portable, avx2, avx512) asks for.
 * Errors: ARGUMENT for another word, UNAVAILABLE for what the CPU lacks. */
flatclip_status fc_isa_choose(fc_isa *isa, flatclip_error *err);

/* Whether this CPU can run it. */
int fc_isa_supported(fc_isa isa);

const char *fc_isa_name(fc_isa isa); /* "avx512" */

#endif
