/* Models and sessions on a CUDA device.
 *
 * A batch goes: pixels from pinned memory to the device, on a stream of their own, while the batch
 * before is computed; patch embedding, which reads them; one graph with all the rest, recorded for
 * a fixed set of batch sizes; embeddings back to pinned memory. Everything is made when the session
 * is opened, and every kernel and graph has run once then, so that encoding takes nothing. */
#include "engine/cuda/cuda_session.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/cuda_tiles.h"
#include "engine/cuda/cuda_weights.h"
#include "engine/session.h"
#include "engine/tower.h"
#include "engine/workspace.h"

enum {
    FEW_IMAGES = 8,             /* up to here latency is what counts */
    FEW_BYTES = 2 << 20         /* pixels that are not worth a stream of their own */
};

struct fc_cuda_session {
    fc_cuda_backend backend;    /* on the stream compute */
    void *memory, *pinned;
    cudaStream_t compute, copy;
    cudaEvent_t uploaded;       /* on copy: the pixels are there */
    cudaEvent_t consumed;       /* on compute: the pixels may be overwritten */
    cudaEvent_t done[FC_STAGING];
    void *pixels;               /* device, for one batch */
    void *cublaslt_workspace;   /* device, or NULL */
    float *results[FC_STAGING]; /* pinned [most, embed] */
    int buckets, sizes[FC_CUDA_BUCKETS];
    cudaGraphExec_t graph[FC_CUDA_BUCKETS];
};

static size_t image_values(const flatclip_session *session)
{
    const size_t side = (size_t)session->model->config.image_size;
    return side * side * 3;
}

fc_cuda_backend *fc_cuda_session_backend(fc_cuda_session *session)
{
    return &session->backend;
}

void *fc_cuda_session_pixels(const fc_cuda_session *session)
{
    return session->pixels;
}

/* -- The model -------------------------------------------------------------------------------- */

static void weights_layout(flatclip_model *model, fc_arenas *arenas)
{
    fc_cuda_weights_layout(model, &arenas->device);
}

static flatclip_status weights_load(flatclip_model *model, const fc_safetensors *file, int threads,
                                    flatclip_error *err)
{
    (void)threads; /* reading is faster than the bus */
    FC_TRY(fc_cuda_device_use(&model->cuda, err));
    FC_TRY(fc_cuda_check(cudaMalloc(&model->block, model->weight_bytes), "cudaMalloc of weights",
                         err));
    fc_arena placed = { .base = model->block };
    fc_cuda_weights_layout(model, &placed);
    FC_TRY(fc_cuda_weights_fill(model, file, err));
    if (!model->wants_cublaslt)
        return FLATCLIP_OK;
    FC_TRY(fc_cublaslt_load(&model->cublaslt, err));
    const size_t used = strlen(model->backend);
    snprintf(model->backend + used, sizeof model->backend - used, ", %s",
             fc_cublaslt_name(model->cublaslt));
    return FLATCLIP_OK;
}

static void weights_free(flatclip_model *model)
{
    fc_cublaslt_unload(model->cublaslt);
    if (model->block)
        (void)cudaFree(model->block);
}

/* -- Memory of a session ---------------------------------------------------------------------- */

/* Float32 pixels take four times the room of bytes: fewer of them go through the same buffers. */
static void session_layout(flatclip_session *session, fc_arenas *arenas)
{
    const flatclip_model *model = session->model;
    const fc_workspace_form form = { fc_cuda_number_bytes(fc_cuda_number(model->precision)), 0 };
    fc_cuda_session unplaced, *s = session->cuda ? session->cuda : &unplaced;

    session->most = fc_cuda_best_batch(&model->tower, model->cuda.multiprocessors,
                                       session->options.max_batch);
    session->most_floats = session->most < 4 ? 1 : session->most / 4;
    fc_workspace_layout(&session->ws, &arenas->device, &model->tower, &form, session->most);

    const size_t bytes = image_values(session) * (size_t)session->most;
    const size_t floats = image_values(session) * (size_t)session->most_floats * sizeof(float);
    arenas->device.kind = arenas->pinned.kind = FLATCLIP_REGION_WORKSPACE;
    s->pixels = fc_arena_take(&arenas->device, "pixels", bytes > floats ? bytes : floats, 1);
    s->cublaslt_workspace =
        model->wants_cublaslt ? fc_arena_take(&arenas->device, "cuBLASLt workspace",
                                              FC_CUBLASLT_WORKSPACE, 1)
                              : NULL;
    for (int i = 0; i < FC_STAGING; i++)
        s->results[i] = fc_arena_take(&arenas->pinned, "embeddings",
                                      (size_t)session->most * (size_t)model->tower.embed,
                                      sizeof(float));
}

static flatclip_status take_memory(fc_cuda_session *s, size_t device, size_t pinned,
                                   flatclip_error *err)
{
    FC_TRY(fc_cuda_check(cudaMalloc(&s->memory, device), "cudaMalloc of a session", err));
    return fc_cuda_check(cudaHostAlloc(&s->pinned, pinned, cudaHostAllocDefault),
                         "cudaHostAlloc of a session", err);
}

static flatclip_status take_streams(fc_cuda_session *s, int most, flatclip_error *err)
{
    /* Waiting by spinning is quicker; by sleeping it leaves the core to decoding. */
    const unsigned flags = cudaEventDisableTiming | (most > FEW_IMAGES ? cudaEventBlockingSync : 0);
    FC_TRY(fc_cuda_check(cudaStreamCreateWithFlags(&s->compute, cudaStreamNonBlocking),
                         "cudaStreamCreateWithFlags", err));
    FC_TRY(fc_cuda_check(cudaStreamCreateWithFlags(&s->copy, cudaStreamNonBlocking),
                         "cudaStreamCreateWithFlags", err));
    cudaEvent_t *events[] = { &s->uploaded, &s->consumed, &s->done[0], &s->done[1], &s->done[2] };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        FC_TRY(fc_cuda_check(cudaEventCreateWithFlags(events[i], flags),
                             "cudaEventCreateWithFlags", err));
    return FLATCLIP_OK;
}

static flatclip_status session_take(flatclip_session *session, const fc_arenas *measured,
                                    fc_arenas *placed, flatclip_error *err)
{
    fc_cuda_session *s = session->cuda = calloc(1, sizeof *s);
    if (!s)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a session");
    FC_TRY(fc_cuda_device_use(&session->model->cuda, err));
    FC_TRY(take_memory(s, measured->device.used, measured->pinned.used, err));
    FC_TRY(take_streams(s, session->most, err));
    memset(s->pinned, 0, measured->pinned.used);
    placed->device.base = s->memory;
    placed->pinned.base = s->pinned;
    const size_t ours = measured->device.used - /* its workspace is the last */
                        (session->model->wants_cublaslt ? FC_CUBLASLT_WORKSPACE : 0);
    FC_TRY(fc_cuda_check(cudaMemsetAsync(s->memory, 0, ours, s->compute),
                         "cudaMemsetAsync", err));
    return fc_cuda_check(cudaStreamSynchronize(s->compute), "cudaStreamSynchronize", err);
}

static void session_close(flatclip_session *session)
{
    fc_cuda_session *s = session->cuda;
    if (!s)
        return;
    (void)fc_cuda_device_use(&session->model->cuda, NULL);
    fc_cublaslt_close(s->backend.cublaslt);
    for (int i = 0; i < FC_CUDA_BUCKETS; i++)
        if (s->graph[i])
            (void)cudaGraphExecDestroy(s->graph[i]);
    cudaEvent_t events[] = { s->uploaded, s->consumed, s->done[0], s->done[1], s->done[2] };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            (void)cudaEventDestroy(events[i]);
    if (s->copy)
        (void)cudaStreamDestroy(s->copy);
    if (s->compute)
        (void)cudaStreamDestroy(s->compute);
    if (s->pinned)
        (void)cudaFreeHost(s->pinned);
    if (s->memory)
        (void)cudaFree(s->memory);
    free(s);
}

/* -- Opening ---------------------------------------------------------------------------------- */

static void run_blocks(flatclip_session *session, int batch)
{
    fc_run_image_blocks(&session->cuda->backend.base, &session->model->tower, &session->ws, batch,
                        !session->options.no_normalize);
}

/* Waits for what was launched, and says what went wrong with it. */
static flatclip_status settle(fc_cuda_session *s, flatclip_error *err)
{
    FC_TRY(fc_cublaslt_check(s->backend.cublaslt, err));
    FC_TRY(fc_cuda_check(cudaGetLastError(), "a first launch", err));
    return fc_cuda_check(cudaStreamSynchronize(s->compute), "cudaStreamSynchronize", err);
}

/* The runtime loads a kernel when it is first launched, which recording cannot do: every one that
 * any batch may need runs once, on zeros. */
static flatclip_status load_kernels(flatclip_session *session, flatclip_error *err)
{
    fc_cuda_session *s = session->cuda;
    fc_backend *be = &s->backend.base;
    const fc_tower *tower = &session->model->tower;
    (void)cudaGetLastError(); /* what the host's program left behind is not ours to report */
    fc_patch_embed(be, &session->ws, tower, s->pixels, FC_PIXELS_F32, 1);
    fc_patch_embed(be, &session->ws, tower, s->pixels, FC_PIXELS_U8, 1);
    const int has_tiles = s->backend.number != FC_NUMBER_F32 && !s->backend.cublaslt;
    const int tiles = has_tiles ? FC_TILE_COUNT : 1;
    for (int tile = 0; tile < tiles; tile++) {
        s->backend.forced_tile = tile;
        run_blocks(session, 1);
    }
    s->backend.forced_tile = -1;
    return settle(s, err);
}

/* A recording that failed is ended all the same, so that the stream can be destroyed. */
static flatclip_status record(flatclip_session *session, int batch, cudaGraph_t *graph,
                              flatclip_error *err)
{
    fc_cuda_session *s = session->cuda;
    FC_TRY(fc_cuda_check(cudaStreamBeginCapture(s->compute, cudaStreamCaptureModeThreadLocal),
                         "cudaStreamBeginCapture", err));
    run_blocks(session, batch);
    const cudaError_t queued = cudaGetLastError();
    const cudaError_t ended = cudaStreamEndCapture(s->compute, graph);
    FC_TRY(fc_cublaslt_check(s->backend.cublaslt, err));
    FC_TRY(fc_cuda_check(queued, "a recorded launch", err));
    return fc_cuda_check(ended, "cudaStreamEndCapture", err);
}

static flatclip_status make_graph(flatclip_session *session, int bucket, flatclip_error *err)
{
    fc_cuda_session *s = session->cuda;
    cudaGraph_t graph = NULL;
    if (s->backend.cublaslt) { /* it chooses kernels by shape: those, too, run before recording */
        run_blocks(session, s->sizes[bucket]);
        FC_TRY(settle(s, err));
    }
    flatclip_status status = record(session, s->sizes[bucket], &graph, err);
    if (status == FLATCLIP_OK)
        status = fc_cuda_check(cudaGraphInstantiate(&s->graph[bucket], graph, 0),
                               "cudaGraphInstantiate", err);
    if (graph)
        (void)cudaGraphDestroy(graph);
    FC_TRY(status);
    FC_TRY(fc_cuda_check(cudaGraphUpload(s->graph[bucket], s->compute), "cudaGraphUpload", err));
    FC_TRY(fc_cuda_check(cudaGraphLaunch(s->graph[bucket], s->compute), "cudaGraphLaunch", err));
    return fc_cuda_check(cudaStreamSynchronize(s->compute), "cudaStreamSynchronize", err);
}

static flatclip_status session_open(flatclip_session *session, flatclip_error *err)
{
    fc_cuda_session *s = session->cuda;
    const flatclip_model *model = session->model;
    fc_cuda_backend_init(&s->backend, s->compute, fc_cuda_number(model->precision),
                         model->cuda.multiprocessors);
    if (model->cublaslt)
        FC_TRY(fc_cublaslt_open(model->cublaslt, s->compute, s->cublaslt_workspace,
                                &s->backend.cublaslt, err));
    FC_TRY(load_kernels(session, err));
    s->buckets = fc_cuda_buckets(session->most, s->sizes);
    for (int i = 0; i < s->buckets; i++)
        FC_TRY(make_graph(session, i, err));
    return FLATCLIP_OK;
}

/* -- Encoding --------------------------------------------------------------------------------- */

/* Brings the pixels to the device, behind the last batch that reads them there, and makes the
 * stream compute wait for them. */
static flatclip_status upload(fc_cuda_session *s, const void *pinned, size_t bytes,
                              flatclip_error *err)
{
    const int few = bytes <= FEW_BYTES;
    const cudaStream_t stream = few ? s->compute : s->copy;
    if (!few)
        FC_TRY(fc_cuda_check(cudaStreamWaitEvent(stream, s->consumed, 0), "cudaStreamWaitEvent",
                             err));
    FC_TRY(fc_cuda_check(cudaMemcpyAsync(s->pixels, pinned, bytes, cudaMemcpyHostToDevice, stream),
                         "cudaMemcpyAsync of pixels", err));
    if (few)
        return FLATCLIP_OK;
    FC_TRY(fc_cuda_check(cudaEventRecord(s->uploaded, stream), "cudaEventRecord", err));
    return fc_cuda_check(cudaStreamWaitEvent(s->compute, s->uploaded, 0), "cudaStreamWaitEvent",
                         err);
}

/* Queues the computation of a batch whose pixels are on their way. Rows from batch to the graph's
 * size are computed from whatever lies there. */
static flatclip_status compute(flatclip_session *session, fc_pixel_type type, int batch,
                               flatclip_error *err)
{
    fc_cuda_session *s = session->cuda;
    int bucket = 0;
    while (s->sizes[bucket] < batch)
        bucket++;
    fc_patch_embed(&s->backend.base, &session->ws, &session->model->tower, s->pixels, type, batch);
    FC_TRY(fc_cuda_check(cudaGetLastError(), "the launch of the patch embedding", err));
    FC_TRY(fc_cuda_check(cudaEventRecord(s->consumed, s->compute), "cudaEventRecord", err));
    return fc_cuda_check(cudaGraphLaunch(s->graph[bucket], s->compute), "cudaGraphLaunch", err);
}

static flatclip_status start(flatclip_session *session, int slot, const void *pixels,
                             fc_pixel_type type, int batch, flatclip_error *err)
{
    fc_cuda_session *s = session->cuda;
    uint8_t *pinned = session->staging[slot].pixels;
    const size_t bytes = image_values(session) * (size_t)batch *
                         (type == FC_PIXELS_F32 ? sizeof(float) : 1);
    if (pixels != pinned)
        memcpy(pinned, pixels, bytes);
    FC_TRY(fc_cuda_device_use(&session->model->cuda, err));
    FC_TRY(upload(s, pinned, bytes, err));
    FC_TRY(compute(session, type, batch, err));
    const size_t result = (size_t)batch * (size_t)session->model->tower.embed * sizeof(float);
    FC_TRY(fc_cuda_check(cudaMemcpyAsync(s->results[slot], session->ws.embed.data, result,
                                         cudaMemcpyDeviceToHost, s->compute),
                         "cudaMemcpyAsync of embeddings", err));
    return fc_cuda_check(cudaEventRecord(s->done[slot], s->compute), "cudaEventRecord", err);
}

static flatclip_status finish(flatclip_session *session, int slot, fc_rows *embeddings,
                              flatclip_error *err)
{
    fc_cuda_session *s = session->cuda;
    *embeddings = (fc_rows){ s->results[slot], 0, (size_t)session->model->tower.embed,
                             sizeof(float) };
    return fc_cuda_check(cudaEventSynchronize(s->done[slot]), "waiting for a batch", err);
}

const fc_compute fc_cuda_compute = {
    1,       weights_layout, weights_load, weights_free, session_layout, session_take, session_open,
    session_close, start, finish,
};
