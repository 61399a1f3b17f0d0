#define _GNU_SOURCE
#include "bench/device/device_clock.h"

#include <cuda_runtime_api.h>
#include <math.h>

#include "bench/measure.h"
#include "engine/base/error.h"
#include "engine/cuda/cuda_device.h"

enum { ROUNDS = 5 };

static double time_calls(const device_clock *clock, device_work *work, void *context, long calls)
{
    const double start = seconds_now();
    for (long i = 0; i < calls; i++)
        work(clock->stream, context);
    (void)cudaStreamSynchronize(clock->stream); /* its error, too, stays for cudaGetLastError */
    return (seconds_now() - start) / (double)calls;
}

double device_time(const device_clock *clock, device_work *work, void *context, double seconds,
                   flatclip_error *err)
{
    double rounds[ROUNDS];
    const double first = time_calls(clock, work, context, 1);
    long calls = 1;
    for (int i = 0; !clock->once && i < ROUNDS; i++) {
        const double guess = i ? rounds[i - 1] : time_calls(clock, work, context, 3);
        calls = (long)(seconds / ROUNDS / guess);
        rounds[i] = time_calls(clock, work, context, calls < 1 ? 1 : calls > 20000 ? 20000 : calls);
    }
    if (fc_cuda_check(cudaGetLastError(), "work that is timed", err) != FLATCLIP_OK)
        return (double)NAN;
    return clock->once ? first : sort_for_median(rounds, ROUNDS);
}

/* -- Recorded --------------------------------------------------------------------------------- */

enum { RECORDED = 10 };

static flatclip_status record(const device_clock *clock, device_work *work, void *context,
                              int calls, cudaGraphExec_t *graph, flatclip_error *err)
{
    cudaGraph_t recorded = NULL;
    work(clock->stream, context); /* kernels are loaded at their first launch, which recording
                                     cannot do */
    FC_TRY(fc_cuda_check(cudaStreamSynchronize(clock->stream), "work that is timed", err));
    FC_TRY(fc_cuda_check(cudaStreamBeginCapture(clock->stream, cudaStreamCaptureModeThreadLocal),
                         "cudaStreamBeginCapture", err));
    for (int i = 0; i < calls; i++)
        work(clock->stream, context);
    FC_TRY(fc_cuda_check(cudaStreamEndCapture(clock->stream, &recorded), "recording", err));
    const flatclip_status status = fc_cuda_check(cudaGraphInstantiate(graph, recorded, 0),
                                                 "cudaGraphInstantiate", err);
    (void)cudaGraphDestroy(recorded);
    return status;
}

static void replay(fc_cuda_stream stream, void *graph)
{
    (void)cudaGraphLaunch(graph, stream);
}

double device_time_recorded(const device_clock *clock, device_work *work, void *context,
                            double seconds, flatclip_error *err)
{
    const int calls = clock->once ? 1 : RECORDED;
    cudaGraphExec_t graph = NULL;
    if (record(clock, work, context, calls, &graph, err) != FLATCLIP_OK)
        return (double)NAN;
    const double taken = device_time(clock, replay, graph, seconds, err);
    (void)cudaGraphExecDestroy(graph);
    return taken / calls;
}
