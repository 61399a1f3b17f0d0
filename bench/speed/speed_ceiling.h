/* What the CPU or GPU at hand can do at most, measured in the same run as what it is compared with:
 * machines differ, and the same one is faster and slower from minute to minute. */
#ifndef SPEED_CEILING_H
#define SPEED_CEILING_H

#include "engine/base/cpu_features.h"
#include "engine/base/pool.h"

/* Multiply-adds in registers, for one instruction set. run returns a number that depends on all of
 * them, so that none is optimised away. */
typedef struct {
    float (*run)(long steps, float seed);
    double flop; /* floating-point operations a step */
} speed_fma_loop;

extern const speed_fma_loop speed_fma_portable;
#if defined(__x86_64__)
extern const speed_fma_loop speed_fma_avx2;
extern const speed_fma_loop speed_fma_avx512;
#endif

typedef struct {
    fc_isa isa;
    fc_pool *pool;    /* the threads that are measured together */
    long steps;       /* of a burst of a few milliseconds on an undisturbed core */
    volatile float sink;
    double known;     /* FLOP a second of a GPU, which is measured once; NAN if it cannot be */
    double stream;    /* bytes a second from and to memory; NAN if it cannot be measured */
    char why[200];    /* ... and why known is NAN */
} speed_ceiling;

/* Readies a ceiling for isa on threads threads, and measures its memory by the copy-and-add of
 * STREAM over 3 x 128 MiB, the median of five (https://www.cs.virginia.edu/stream/).
 * Errors: MEMORY. Close it in any case. */
flatclip_status speed_ceiling_open(speed_ceiling *ceiling, fc_isa isa, int threads,
                                   flatclip_error *err);
void speed_ceiling_close(speed_ceiling *ceiling);

/* A burst of multiply-adds on all threads, FLOP a second of all together; on a GPU, known. */
double speed_ceiling_flops(speed_ceiling *ceiling);

#endif
