#define _GNU_SOURCE
#include "bench/gpu/gpu_clock.h"

#include <cuda_runtime_api.h>
#include <math.h>

#include "bench/measure.h"

enum { ROUNDS = 5 };

static double time_calls(gpu_work *work, void *context, long calls)
{
    const double start = seconds_now();
    for (long i = 0; i < calls; i++)
        work(context);
    (void)cudaStreamSynchronize(gpu_stream); /* its error, too, stays for cudaGetLastError */
    return (seconds_now() - start) / (double)calls;
}

double gpu_time(gpu_run *run, gpu_work *work, void *context, double seconds)
{
    double rounds[ROUNDS];
    const double first = time_calls(work, context, 1);
    long calls = 1;
    for (int i = 0; !run->rehearse && i < ROUNDS; i++) {
        const double guess = i ? rounds[i - 1] : time_calls(work, context, 3);
        calls = (long)(seconds / ROUNDS / guess);
        rounds[i] = time_calls(work, context, calls < 1 ? 1 : calls > 20000 ? 20000 : calls);
    }
    if (!gpu_good(run, cudaGetLastError(), "work that is timed"))
        return (double)NAN;
    return run->rehearse ? first : sort_for_median(rounds, ROUNDS);
}

/* -- Recorded --------------------------------------------------------------------------------- */

enum { RECORDED = 10 };

static int record(gpu_run *run, gpu_work *work, void *context, int calls, cudaGraphExec_t *graph)
{
    cudaGraph_t recorded = NULL;
    work(context); /* the runtime loads kernels at their first launch, which recording cannot do */
    if (!gpu_good(run, cudaStreamSynchronize(gpu_stream), "work that is timed") ||
        !gpu_good(run, cudaStreamBeginCapture(gpu_stream, cudaStreamCaptureModeThreadLocal),
                  "cudaStreamBeginCapture"))
        return 0;
    for (int i = 0; i < calls; i++)
        work(context);
    const int good = gpu_good(run, cudaStreamEndCapture(gpu_stream, &recorded), "recording") &&
                     gpu_good(run, cudaGraphInstantiate(graph, recorded, 0),
                              "cudaGraphInstantiate");
    if (recorded)
        (void)cudaGraphDestroy(recorded);
    return good;
}

static void replay(void *graph)
{
    (void)cudaGraphLaunch(graph, gpu_stream);
}

double gpu_time_recorded(gpu_run *run, gpu_work *work, void *context, double seconds)
{
    const int calls = run->rehearse ? 1 : RECORDED;
    cudaGraphExec_t graph = NULL;
    if (!record(run, work, context, calls, &graph))
        return (double)NAN;
    const double taken = gpu_time(run, replay, graph, seconds);
    (void)cudaGraphExecDestroy(graph);
    return taken / calls;
}
