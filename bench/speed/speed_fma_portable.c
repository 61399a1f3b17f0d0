/* The loop of multiply-adds for any processor: a multiplication and an addition, as the portable
 * kernels do it. */
#include "engine/cpu/vec_portable.h"
#include "bench/speed/speed_fma_body.h"

const speed_fma_loop speed_fma_portable = FMA_LOOP;
