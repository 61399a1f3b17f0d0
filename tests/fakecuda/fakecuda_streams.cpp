/* Streams are queues of operations, graphs are queues that are kept. */
#include "tests/fakecuda/fakecuda_state.h"

#include <chrono>
#include <string.h>

#include "tests/simt/simt.h"
#include "tests/simt/simt_models.h"

namespace fakecuda {

/* The operation leaves the queue before it runs: it may itself drain this stream. */
static void run_next(CUstream_st *stream)
{
    const Operation operation = stream->queue.front();
    stream->queue.pop_front();
    if (!is_lost())
        operation();
}

void drain(CUstream_st *stream)
{
    while (!stream->queue.empty())
        run_next(stream);
}

void drain_all()
{
    for (CUstream_st *stream : streams)
        drain(stream);
}

void drain_until(CUevent_st *event, long count)
{
    while (event->reached < count && !event->stream->queue.empty())
        run_next(event->stream);
}

bool spoils_a_recording()
{
    bool any = false;
    for (const CUstream_st *stream : streams) {
        CUgraph_st *graph = stream->recording;
        if (!graph || graph->mode == cudaStreamCaptureModeRelaxed ||
            (graph->mode == cudaStreamCaptureModeThreadLocal &&
             graph->thread != std::this_thread::get_id()))
            continue;
        any = graph->is_spoilt = true;
    }
    return any;
}

static void queue(CUstream_st *stream, const Operation &operation)
{
    stream->queue.push_back(operation);
    if (stream->is_early)
        drain(stream);
}

static void add(CUstream_st *stream, const Operation &operation)
{
    if (stream->recording)
        stream->recording->operations.push_back(operation);
    else
        queue(stream, operation);
}

static cudaError_t check_stream(CUstream_st *stream)
{
    return streams.count(stream) ? cudaSuccess
                                 : fails(cudaErrorInvalidResourceHandle, "this is no live stream");
}

static cudaError_t check_waitable(CUstream_st *stream)
{
    if (check_stream(stream) != cudaSuccess)
        return cudaErrorInvalidResourceHandle;
    if (!stream->recording)
        return cudaSuccess;
    stream->recording->is_spoilt = true;
    return fails(cudaErrorStreamCaptureUnsupported,
                 "a stream that is recorded cannot be waited for");
}

static cudaError_t after_waiting()
{
    return is_lost() ? cudaErrorIllegalAddress : cudaSuccess;
}

static void copy_now(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    if (kind == cudaMemcpyHostToDevice) {
        simt::upload(to, from, bytes);
    } else if (kind == cudaMemcpyDeviceToHost) {
        simt::download(to, from, bytes);
    } else {
        std::vector<char> between(bytes);
        simt::download(between.data(), from, bytes);
        simt::upload(to, between.data(), bytes);
    }
}

static cudaError_t check_copy(const void *to, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind)
{
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost &&
        kind != cudaMemcpyDeviceToDevice)
        return fails(cudaErrorInvalidMemcpyDirection, "a copy that the stand-in does not know");
    const bool good = (kind == cudaMemcpyDeviceToHost || lies_in(device_blocks, to, bytes)) &&
                      (kind == cudaMemcpyHostToDevice || lies_in(device_blocks, from, bytes));
    return good ? cudaSuccess : fails(cudaErrorInvalidValue, "a copy leaves the device's blocks");
}

} /* namespace fakecuda */

using namespace fakecuda;

/* Arguments are copied, as by the device: a graph launches them again. */
void simt::queue_launch(CUstream_st *stream, const char *name, dim3 grid, dim3 block,
                        size_t shared_bytes, void (*body)(void *), const void *arguments,
                        size_t bytes)
{
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    if (enter(name, LAUNCH_CALL) != cudaSuccess || check_stream(stream) != cudaSuccess)
        return;
    const std::vector<char> kept((const char *)arguments, (const char *)arguments + bytes);
    add(stream, [=] {
        std::vector<char> call = kept;
        fakecuda::counts.kernels++;
        if (!machine.idle && !simt::launch(name, grid, block, shared_bytes, body, call.data()))
            lose_device(simt::finding());
    });
}

extern "C" {

int fakecuda_queue(struct CUstream_st *stream, const char *name, void (*work)(const void *),
                   const void *argument, size_t bytes)
{
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    const cudaError_t entered = enter(name, LAUNCH_CALL);
    if (entered != cudaSuccess || check_stream(stream) != cudaSuccess)
        return entered != cudaSuccess ? entered : cudaErrorInvalidResourceHandle;
    const std::vector<char> kept((const char *)argument, (const char *)argument + bytes);
    add(stream, [=] {
        fakecuda::counts.kernels++;
        if (!machine.idle)
            work(kept.data());
    });
    return cudaSuccess;
}

void fakecuda_read(void *to, const void *device, size_t bytes)
{
    simt::download(to, device, bytes);
}

void fakecuda_write(void *device, const void *from, size_t bytes)
{
    simt::upload(device, from, bytes);
}

/* -- Copies ----------------------------------------------------------------------------------- */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    ENTER(COPY);
    if (check_copy(to, from, bytes, kind) != cudaSuccess || check_stream(stream) != cudaSuccess)
        return cudaErrorInvalidValue;
    if (kind != cudaMemcpyDeviceToDevice &&
        !lies_in(pinned_blocks, kind == cudaMemcpyHostToDevice ? from : to, bytes)) {
        counts.pageable++;
        if (is_frozen())
            return fails(cudaErrorNotPermitted, "an asynchronous copy of pageable memory");
    }
    add(stream, [=] { copy_now(to, from, bytes, kind); });
    return cudaSuccess;
}

/* Waits for streams, but not for those made with cudaStreamNonBlocking. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    ENTER(OTHER);
    if (spoils_a_recording())
        return fails(cudaErrorStreamCaptureImplicit, "cudaMemcpy while a stream is recorded");
    for (CUstream_st *stream : streams)
        if (stream->is_blocking)
            drain(stream);
    if (check_copy(to, from, bytes, kind) != cudaSuccess)
        return cudaErrorInvalidValue;
    copy_now(to, from, bytes, kind);
    return after_waiting();
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    ENTER(MEMSET);
    if (!lies_in(device_blocks, at, bytes) || check_stream(stream) != cudaSuccess)
        return fails(cudaErrorInvalidValue, "a memset leaves the device's blocks");
    add(stream, [=] {
        const std::vector<char> filled(bytes, (char)value);
        simt::upload(at, filled.data(), bytes);
    });
    return cudaSuccess;
}

/* -- Streams and events ----------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    ENTER(OTHER);
    streams.insert(*stream = new CUstream_st);
    (*stream)->is_blocking = !(flags & cudaStreamNonBlocking);
    (*stream)->is_early = streams_made < 32 && machine.early >> streams_made & 1;
    streams_made++;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    ENTER_GIVING;
    if (check_stream(stream) != cudaSuccess)
        return cudaErrorInvalidResourceHandle;
    drain(stream);
    streams.erase(stream);
    delete stream->recording;
    delete stream;
    return entered_;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    ENTER(WAIT);
    const cudaError_t waitable = check_waitable(stream);
    if (waitable != cudaSuccess)
        return waitable;
    drain(stream);
    return after_waiting();
}

cudaError_t cudaDeviceSynchronize(void)
{
    ENTER(WAIT);
    if (spoils_a_recording())
        return fails(cudaErrorStreamCaptureUnsupported, "waiting while a stream is recorded");
    drain_all();
    return after_waiting();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    ENTER(OTHER);
    events.insert(*event = new CUevent_st);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    ENTER_GIVING;
    drain_all(); /* queued operations point to it */
    if (!events.erase(event))
        return fails(cudaErrorInvalidResourceHandle, "this is no live event");
    delete event;
    return entered_;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ENTER(EVENT);
    if (!events.count(event) || check_stream(stream) != cudaSuccess)
        return fails(cudaErrorInvalidResourceHandle, "this is no live event");
    if (stream->recording)
        return fails(cudaErrorStreamCaptureUnsupported, "events are not recorded in graphs here");
    if (event->stream && event->stream != stream)
        drain_until(event, event->recorded);
    event->stream = stream;
    const long count = ++event->recorded;
    queue(stream, [=] {
        event->reached = count;
        event->reached_at = std::chrono::duration<double>(
                                std::chrono::steady_clock::now().time_since_epoch()).count();
    });
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    ENTER(QUESTION);
    if (!events.count(from) || !events.count(to) || !from->recorded || !to->recorded)
        return fails(cudaErrorInvalidResourceHandle, "events that were not recorded have no time");
    if (from->reached < from->recorded || to->reached < to->recorded)
        return cudaErrorNotReady;
    *milliseconds = (float)(1e3 * (to->reached_at - from->reached_at));
    return cudaSuccess;
}

/* An event that was never recorded is no reason to wait. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    ENTER(EVENT);
    if (!events.count(event) || check_stream(stream) != cudaSuccess)
        return fails(cudaErrorInvalidResourceHandle, "this is no live event");
    if (stream->recording)
        return fails(cudaErrorStreamCaptureIsolation, "a recorded stream waits for another one");
    const long count = event->recorded;
    if (count)
        queue(stream, [=] { drain_until(event, count); });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ENTER(WAIT);
    if (!events.count(event))
        return fails(cudaErrorInvalidResourceHandle, "this is no live event");
    if (event->recorded)
        drain_until(event, event->recorded);
    return after_waiting();
}

/* Time passes with every question, so that who goes on asking gets there. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    ENTER(QUESTION);
    if (!events.count(event))
        return fails(cudaErrorInvalidResourceHandle, "this is no live event");
    if (event->reached == event->recorded)
        return after_waiting();
    run_next(event->stream);
    return cudaErrorNotReady;
}

/* -- Graphs ----------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    ENTER(OTHER);
    if (check_stream(stream) != cudaSuccess || stream->recording)
        return fails(cudaErrorIllegalState, "a stream cannot be recorded twice at a time");
    stream->recording = new CUgraph_st;
    stream->recording->mode = mode;
    stream->recording->thread = std::this_thread::get_id();
    return cudaSuccess;
}

/* Ends the recording even if it is made to fail, as the runtime does: the graph is lost then. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    CUgraph_st *recorded = stream->recording;
    stream->recording = nullptr;
    const cudaError_t entered = enter(__func__, OTHER);
    if (entered != cudaSuccess || !recorded) {
        delete recorded;
        return entered != cudaSuccess ? entered : fails(cudaErrorIllegalState, "no recording");
    }
    if (recorded->is_spoilt) {
        delete recorded;
        *graph = nullptr;
        return fails(cudaErrorStreamCaptureInvalidated, "a recording that another call has spoilt");
    }
    graphs.insert(*graph = recorded);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
    ENTER(OTHER);
    if (!graphs.count(graph))
        return fails(cudaErrorInvalidResourceHandle, "this is no live graph");
    executables.insert(*executable = new CUgraphExec_st{ graph->operations });
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream)
{
    ENTER(OTHER);
    if (!executables.count(executable))
        return fails(cudaErrorInvalidResourceHandle, "this is no live graph");
    return check_stream(stream);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    ENTER(GRAPH_LAUNCH);
    if (!executables.count(executable) || check_stream(stream) != cudaSuccess)
        return fails(cudaErrorInvalidResourceHandle, "this is no live graph");
    for (const Operation &operation : executable->operations)
        add(stream, operation);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    ENTER_GIVING;
    if (!graphs.erase(graph))
        return fails(cudaErrorInvalidResourceHandle, "this is no live graph");
    delete graph;
    return entered_;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    ENTER_GIVING;
    drain_all(); /* no executable is destroyed under a launch */
    if (!executables.erase(executable))
        return fails(cudaErrorInvalidResourceHandle, "this is no live graph");
    delete executable;
    return entered_;
}

} /* extern "C" */
