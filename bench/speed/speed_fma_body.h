/* A loop of nothing but multiply-adds in registers, written once over a vector type: what the
 * arithmetic units can do at most. Included after one of engine/cpu/vec_*.h. */
#include "bench/speed/speed_ceiling.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* More chains than latency times ports (4 x 2), and fewer than registers. */
enum { CHAINS = VL == 16 ? 24 : 12 };

/* Every chain stays near seed: no infinities, no denormals. */
static float run_fma(long steps, float seed)
{
    const vec factor = vec_set(0.5f), add = vec_set(0.5f * seed);
    vec chain[CHAINS];
    float lanes[VL], sum = 0;
    UNROLL
    for (int c = 0; c < CHAINS; c++)
        chain[c] = vec_set(seed + (float)c);
    for (long i = 0; i < steps; i++) {
        UNROLL
        for (int c = 0; c < CHAINS; c++)
            chain[c] = vec_fma(chain[c], factor, add);
    }
    UNROLL
    for (int c = 1; c < CHAINS; c++)
        chain[0] = vec_add(chain[0], chain[c]);
    vec_store(lanes, chain[0]);
    for (int i = 0; i < VL; i++)
        sum += lanes[i];
    return sum;
}

#define FMA_LOOP { run_fma, 2.0 * VL * CHAINS }
