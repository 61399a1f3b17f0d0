/* The loop of multiply-adds for processors with AVX-512. */
#if defined(__x86_64__)
#include "engine/cpu/vec_avx512.h"
#include "bench/speed/speed_fma_body.h"

const speed_fma_loop speed_fma_avx512 = FMA_LOOP;
#endif
