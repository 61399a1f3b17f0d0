/* Measures the machine. */
#define _GNU_SOURCE
#include "bench/speed/speed_ceiling.h"

#include <math.h>

#include "bench/measure.h"

enum { STREAM_FLOATS = 32 << 20, STREAM_PASSES = 5, PARTS = 64 };

#define BURST_SECONDS 0.004

static const speed_fma_loop *loop_for(fc_isa isa)
{
#if defined(__x86_64__)
    if (isa != FC_ISA_PORTABLE)
        return isa == FC_ISA_AVX2 ? &speed_fma_avx2 : &speed_fma_avx512;
#endif
    (void)isa;
    return &speed_fma_portable;
}

static void fma_task(void *context, int task, int worker)
{
    speed_ceiling *ceiling = context;
    (void)task;
    (void)worker;
    ceiling->sink = loop_for(ceiling->isa)->run(ceiling->steps, 1.0f);
}

double speed_ceiling_flops(speed_ceiling *ceiling)
{
    if (!ceiling->pool)
        return ceiling->known;
    const int threads = fc_pool_threads(ceiling->pool);
    const double start = seconds_now();
    fc_pool_run(ceiling->pool, fma_task, ceiling, threads);
    return loop_for(ceiling->isa)->flop * (double)ceiling->steps * threads /
           (seconds_now() - start);
}

typedef struct {
    float *to;
    const float *from, *add;
} stream_job;

static void stream_task(void *context, int task, int worker)
{
    const stream_job *job = context;
    const size_t part = STREAM_FLOATS / PARTS, first = (size_t)task * part;
    float *to = job->to + first;
    const float *from = job->from + first, *add = job->add + first;
    (void)worker;
    for (size_t i = 0; i < part; i++)
        to[i] = from[i] + 3.0f * add[i];
}

static double measure_stream(speed_ceiling *ceiling)
{
    double rates[STREAM_PASSES], median = (double)NAN;
    float *floats = malloc(3 * (size_t)STREAM_FLOATS * sizeof *floats);
    if (floats) {
        const stream_job job = { floats, floats + STREAM_FLOATS,
                                 floats + 2 * (size_t)STREAM_FLOATS };
        for (size_t i = 0; i < 3 * (size_t)STREAM_FLOATS; i++)
            floats[i] = 1.0f; /* every page is there, and none is the page of zeros */
        for (int pass = 0; pass < STREAM_PASSES; pass++) {
            const double start = seconds_now();
            fc_pool_run(ceiling->pool, stream_task, (void *)&job, PARTS);
            rates[pass] = 3.0 * STREAM_FLOATS * sizeof *floats / (seconds_now() - start);
        }
        ceiling->sink = floats[STREAM_FLOATS / 2];
        median = sort_for_median(rates, STREAM_PASSES);
    }
    free(floats);
    return median;
}

flatclip_status speed_ceiling_open(speed_ceiling *ceiling, fc_isa isa, int threads,
                                   flatclip_error *err)
{
    *ceiling = (speed_ceiling){ .isa = isa, .steps = 1000 };
    const flatclip_status status = fc_pool_create(threads, &ceiling->pool, err);
    if (status != FLATCLIP_OK)
        return status;
    double best = 0; /* of several: the first burst wakes the units up */
    for (int i = 0; i < 20; i++) {
        const double start = seconds_now();
        fma_task(ceiling, 0, 0);
        const double rate = (double)ceiling->steps / (seconds_now() - start);
        best = rate > best ? rate : best;
    }
    ceiling->steps = 1 + (long)(best * BURST_SECONDS);
    ceiling->stream = measure_stream(ceiling);
    return FLATCLIP_OK;
}

void speed_ceiling_close(speed_ceiling *ceiling)
{
    fc_pool_free(ceiling->pool);
    ceiling->pool = NULL;
}
