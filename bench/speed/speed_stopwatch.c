#define _GNU_SOURCE
#include "bench/speed/speed_stopwatch.h"

#include <string.h>

#include "bench/measure.h"
#include "engine/base/error.h"

#ifdef FC_WITH_CUDA

#include <cuda_runtime_api.h>

#include "engine/cuda/cuda_device.h"

static flatclip_status make_events(speed_stopwatch *watch, flatclip_error *err)
{
    for (int i = 0; i < SPEED_MARKS; i++)
        FC_TRY(fc_cuda_check(cudaEventCreateWithFlags(&watch->event[i], cudaEventDefault),
                             "cudaEventCreateWithFlags", err));
    return FLATCLIP_OK;
}

static void destroy_events(speed_stopwatch *watch)
{
    for (int i = 0; i < SPEED_MARKS; i++)
        if (watch->event[i])
            (void)cudaEventDestroy(watch->event[i]);
}

static void record(speed_stopwatch *watch, int mark)
{
    (void)cudaEventRecord(watch->event[mark], watch->stream); /* cudaGetLastError keeps its error */
}

static flatclip_status read_events(speed_stopwatch *watch, flatclip_error *err)
{
    FC_TRY(fc_cuda_check(cudaGetLastError(), "a launch", err));
    FC_TRY(fc_cuda_check(cudaEventSynchronize(watch->event[watch->count - 1]),
                         "cudaEventSynchronize", err));
    for (int i = 0; i < watch->count; i++) {
        float milliseconds = 0;
        FC_TRY(fc_cuda_check(cudaEventElapsedTime(&milliseconds, watch->event[0], watch->event[i]),
                             "cudaEventElapsedTime", err));
        watch->seconds[i] = 1e-3 * (double)milliseconds;
    }
    return FLATCLIP_OK;
}

#else

static flatclip_status make_events(speed_stopwatch *watch, flatclip_error *err)
{
    (void)watch;
    return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "this build has no CUDA");
}

static void destroy_events(speed_stopwatch *watch)
{
    (void)watch;
}

static void record(speed_stopwatch *watch, int mark)
{
    (void)watch, (void)mark;
}

static flatclip_status read_events(speed_stopwatch *watch, flatclip_error *err)
{
    (void)watch, (void)err;
    return FLATCLIP_OK;
}

#endif

flatclip_status speed_stopwatch_open(speed_stopwatch *watch, fc_cuda_stream stream,
                                     flatclip_error *err)
{
    memset(watch, 0, sizeof *watch);
    watch->stream = stream;
    return stream ? make_events(watch, err) : FLATCLIP_OK;
}

void speed_stopwatch_close(speed_stopwatch *watch)
{
    if (watch->stream)
        destroy_events(watch);
}

void speed_stopwatch_start(speed_stopwatch *watch)
{
    watch->count = 0;
}

int speed_stopwatch_mark(speed_stopwatch *watch)
{
    const int mark = watch->count++;
    if (watch->stream)
        record(watch, mark);
    else
        watch->seconds[mark] = seconds_now();
    return mark;
}

flatclip_status speed_stopwatch_stop(speed_stopwatch *watch, flatclip_error *err)
{
    return watch->stream ? read_events(watch, err) : FLATCLIP_OK;
}
