/* Our matrix products by shape and tile, beside cuBLASLt; and the other kernels of a block. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "bench/device/device_cudnn.h"
#include "bench/gpu/gpu_parts.h"
#include "engine/cuda/cuda_tiles.h"

enum { WIDTH = 768, TOKENS = 50 };

static const char *const tiles[FC_TILE_COUNT] = { "64x32", "64x64", "128x64", "128x128" };

typedef struct {
    const char *name;
    int columns, k;
    fc_gemm_epilogue epilogue;
} layer;

static const layer layers[] = {
    { "QKV", 3 * WIDTH, WIDTH, FC_GEMM_BIAS },
    { "out", WIDTH, WIDTH, FC_GEMM_BIAS_RESIDUAL },
    { "fc1", 4 * WIDTH, WIDTH, FC_GEMM_BIAS_QUICK_GELU },
    { "fc2", WIDTH, 4 * WIDTH, FC_GEMM_BIAS_RESIDUAL },
};

static void run_gemm(fc_cuda_stream stream, void *context)
{
    fc_launch_gemm(stream, context);
}

/* All operands lie in one block of zeros: time does not depend on numbers, power a little. */
static void time_layer(gpu_run *run, const layer *l, int batch, int multiprocessors, char *memory)
{
    const int rows = batch * TOKENS;
    const double work = 2.0 * rows * l->columns * l->k;
    const size_t x_bytes = 2 * (size_t)rows * (size_t)l->k;
    const size_t weight_bytes = 2 * (size_t)l->columns * (size_t)l->k;
    fc_gemm gemm = {
        .number = FC_NUMBER_F16, .epilogue = l->epilogue, .x = memory, .weight = memory + x_bytes,
        .bias = (float *)(memory + x_bytes + weight_bytes),
        .out = memory + x_bytes + weight_bytes + 65536, .x_stride = (size_t)l->k,
        .out_stride = (size_t)l->columns, .rows = rows, .columns = l->columns, .k = l->k,
    };
    const fc_gemm_tile chosen = fc_cuda_tile(rows, l->columns, multiprocessors);
    double seconds[FC_TILE_COUNT];
    fc_gemm_tile best = 0;
    char what[48], words[160];
    flatclip_error err;
    for (fc_gemm_tile t = 0; t < FC_TILE_COUNT; t++) {
        gemm.tile = t;
        seconds[t] = device_time_recorded(&run->clock, run_gemm, &gemm, 0.05, &err);
        if (isnan(seconds[t])) {
            gpu_said(&run->report, GPU_FAIL, tiles[t], err.message);
            return;
        }
        best = seconds[t] < seconds[best] ? t : best;
    }
    snprintf(what, sizeof what, "%s x %d, ours", l->name, batch);
    snprintf(words, sizeof words, "chosen %s, best %s; %.0f %.0f %.0f %.0f us", tiles[chosen],
             tiles[best], 1e6 * seconds[0], 1e6 * seconds[1], 1e6 * seconds[2], 1e6 * seconds[3]);
    gpu_found(&run->report, GPU_MEASURED, what, 1e-12 * work / seconds[chosen], "TFLOP/s", words);

    snprintf(what, sizeof what, "%s x %d, cuBLASLt", l->name, batch);
    const double theirs = gpu_library_time(run, what, &gemm, 0.05);
    if (isnan(theirs))
        return;
    snprintf(words, sizeof words, "with what its epilogue lacks; our share of its speed %.2f",
             theirs / seconds[chosen]);
    gpu_found(&run->report, GPU_MEASURED, what, 1e-12 * work / theirs, "TFLOP/s", words);
}

static void run_attention(fc_cuda_stream stream, void *context)
{
    fc_launch_attention(stream, context);
}

static void run_patches(fc_cuda_stream stream, void *context)
{
    fc_launch_patch_embed(stream, context);
}

/* cuDNN's operation beside ours. */
static void beside_cudnn(gpu_run *run, const char *what, device_cudnn_operation operation,
                         int batch, double work, const char *unit, double ours)
{
    static const device_cudnn_shape shape = { TOKENS, WIDTH, GPU_SIDE, 32 };
    flatclip_error err = { FLATCLIP_OK, "it knows nothing of an emulator" };
    const double seconds =
        run->rehearse ? (double)NAN
                      : device_cudnn_time(&run->clock, operation, &shape, batch, 0.05, &err);
    char words[64];
    if (isnan(seconds)) {
        gpu_said(&run->report, GPU_SKIPPED, what, err.message);
        return;
    }
    snprintf(words, sizeof words, "our share of its speed %.2f", seconds / ours);
    gpu_found(&run->report, GPU_MEASURED, what, work / seconds, unit, words);
}

static void time_attention(gpu_run *run, int batch, char *memory)
{
    char what[48];
    const double gigabytes = 8e-9 * batch * TOKENS * WIDTH; /* q, k, v and out, 2 bytes each */
    fc_cuda_attention attention = {
        .number = FC_NUMBER_F16, .q = memory, .k = memory + 2 * WIDTH, .v = memory + 4 * WIDTH,
        .out = memory + (size_t)batch * TOKENS * 6 * WIDTH, .q_stride = 3 * WIDTH,
        .kv_stride = 3 * WIDTH, .out_stride = WIDTH, .queries = TOKENS, .tokens = TOKENS,
        .heads = WIDTH / FC_CUDA_HEAD_DIM, .batch = batch,
    };
    const double ours = gpu_time(run, run_attention, &attention, 0.05);
    snprintf(what, sizeof what, "attention x %d, ours", batch);
    gpu_found(&run->report, GPU_MEASURED, what, gigabytes / ours, "GB/s", NULL);
    snprintf(what, sizeof what, "attention x %d, cuDNN", batch);
    beside_cudnn(run, what, DEVICE_CUDNN_ATTENTION, batch, gigabytes, "GB/s", ours);
}

static void time_patches(gpu_run *run, int batch, char *memory)
{
    enum { K = 3072 };
    char what[48];
    const double work = 2e-12 * batch * (TOKENS - 1) * WIDTH * K;
    const size_t pixels = ((size_t)batch * GPU_PICTURE + 255) / 256 * 256;
    fc_cuda_patch_embed embed = {
        .number = FC_NUMBER_F16, .pixels = memory, .weight = memory + pixels,
        .x = (float *)(memory + pixels + 2 * WIDTH * K), .x_stride = WIDTH, .image_size = GPU_SIDE,
        .patch_size = 32, .batch = batch, .width = WIDTH, .k = K,
    };
    const double ours = gpu_time(run, run_patches, &embed, 0.05);
    snprintf(what, sizeof what, "patch embedding x %d, ours", batch);
    gpu_found(&run->report, GPU_MEASURED, what, work / ours, "TFLOP/s", "from bytes");
    snprintf(what, sizeof what, "patch embedding x %d, cuDNN", batch);
    beside_cudnn(run, what, DEVICE_CUDNN_PATCHES, batch, work, "TFLOP/s", ours);
}

void gpu_gemm(gpu_run *run)
{
    static const int batches[] = { 1, 8, 32, 112, 225 };
    const int sizes = run->rehearse ? 1 : 5;
    struct cudaDeviceProp properties;
    char *memory = gpu_zeros(run, (size_t)(run->rehearse ? 16 : 256) << 20);
    if (memory && gpu_good(run, cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties"))
        for (int b = 0; b < sizes; b++) {
            for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
                time_layer(run, &layers[l], batches[b], properties.multiProcessorCount, memory);
            time_attention(run, batches[b], memory);
            time_patches(run, batches[b], memory);
        }
    (void)cudaFree(memory);
}
