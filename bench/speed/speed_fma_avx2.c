/* The loop of multiply-adds for processors with AVX2 and FMA. */
#if defined(__x86_64__)
#include "engine/cpu/vec_avx2.h"
#include "bench/speed/speed_fma_body.h"

const speed_fma_loop speed_fma_avx2 = FMA_LOOP;
#endif
