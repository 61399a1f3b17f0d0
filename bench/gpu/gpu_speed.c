/* Which device this is, what it can do at most, and how long encode calls take. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/gpu_clock.h"
#include "bench/gpu/gpu_cudnn.h"
#include "bench/gpu/gpu_library.h"
#include "bench/measure.h"
#include "bench/speed/speed_work.h"
#include "kernels/launch.h"

void gpu_device(gpu_run *run)
{
    struct cudaDeviceProp p;
    int driver = 0, runtime = 0;
    char words[160];
    if (!gpu_good(run, cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties") ||
        !gpu_good(run, cudaDriverGetVersion(&driver), "cudaDriverGetVersion") ||
        !gpu_good(run, cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"))
        return;
    snprintf(words, sizeof words, "%.60s, sm_%d%d, %d multiprocessors, %.1f GiB%s", p.name, p.major,
             p.minor, p.multiProcessorCount, (double)p.totalGlobalMem / (1 << 30),
             run->rehearse ? ": no GPU, an emulator" : "");
    gpu_said(&run->report, GPU_MEASURED, "device", words);
    snprintf(words, sizeof words, "driver for CUDA %d.%d, runtime %d.%d", driver / 1000,
             driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    gpu_said(&run->report, GPU_MEASURED, "versions", words);
    gpu_said(&run->report, GPU_MEASURED, "cuBLASLt", gpu_library_words());
    gpu_said(&run->report, GPU_MEASURED, "cuDNN", gpu_cudnn_words());
}

/* -- Ceilings --------------------------------------------------------------------------------- */

typedef struct {
    char *to, *from;
    size_t bytes;
    enum cudaMemcpyKind kind;
} copying;

static void copy(void *context)
{
    const copying *c = context;
    (void)cudaMemcpyAsync(c->to, c->from, c->bytes, c->kind, gpu_stream);
}

/* The smallest kernel that there is. */
static void launch(void *context)
{
    const copying *c = context;
    fc_launch_gather(gpu_stream, c->to, 16, c->from, 16, 1, 1, 16);
}

static void measure_copies(gpu_run *run)
{
    const size_t bytes = run->rehearse ? 1 << 12 : (size_t)512 << 20;
    copying device = { .bytes = bytes, .kind = cudaMemcpyDeviceToDevice };
    copying up = { .bytes = bytes / 4, .kind = cudaMemcpyHostToDevice };
    device.to = gpu_zeros(run, bytes);
    device.from = gpu_zeros(run, bytes);
    if (device.to && device.from &&
        gpu_good(run, cudaHostAlloc((void **)&up.from, up.bytes, cudaHostAllocDefault),
                 "cudaHostAlloc")) {
        up.to = device.to;
        memset(up.from, 0, up.bytes);
        gpu_found(&run->report, GPU_MEASURED, "launch after launch",
                  1e6 * gpu_time(run, launch, &device, 0.2), "us", NULL);
        gpu_found(&run->report, GPU_MEASURED, "memory, read and written",
                  2e-9 * (double)bytes / gpu_time(run, copy, &device, 0.5), "GB/s", NULL);
        gpu_found(&run->report, GPU_MEASURED, "pinned host to device",
                  1e-9 * (double)up.bytes / gpu_time(run, copy, &up, 0.5), "GB/s", NULL);
    }
    (void)cudaFreeHost(up.from);
    (void)cudaFree(device.from);
    (void)cudaFree(device.to);
}

/* The product that everybody quotes; its numbers are zero, which costs less power than others. */
static void measure_product(gpu_run *run, fc_number number, const char *name)
{
    enum { SIDE = 8192 };
    const size_t bytes = (size_t)SIDE * SIDE * 2;
    char *memory = run->rehearse ? NULL : gpu_zeros(run, 3 * bytes);
    const fc_gemm gemm = {
        .number = number, .epilogue = FC_GEMM_BIAS, .x = memory, .weight = memory + bytes,
        .out = memory + 2 * bytes, .x_stride = SIDE, .out_stride = SIDE, .rows = SIDE,
        .columns = SIDE, .k = SIDE,
    };
    const double seconds =
        memory || run->rehearse ? gpu_library_time(run, name, &gemm, 1.0) : (double)NAN;
    if (!isnan(seconds))
        gpu_found(&run->report, GPU_MEASURED, name, 2e-12 * SIDE * SIDE * SIDE / seconds,
                  "TFLOP/s", NULL);
    (void)cudaFree(memory);
}

void gpu_ceilings(gpu_run *run)
{
    measure_copies(run);
    measure_product(run, FC_NUMBER_F16, "cuBLASLt f16, 8192 cubed");
    measure_product(run, FC_NUMBER_BF16, "cuBLASLt bf16, 8192 cubed");
}

/* -- Encode calls ----------------------------------------------------------------------------- */

/* name says who multiplies, if it is not our kernels. */
static void time_batch(gpu_run *run, const flatclip_model *model, const char *name, int batch,
                       const unsigned char *pixels, float *rows)
{
    enum { MOST_CALLS = 2000 };
    double *calls = malloc(MOST_CALLS * sizeof *calls), spent = 0;
    const double budget = run->rehearse ? 0 : 0.7;
    flatclip_error err;
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    flatclip_session *session = gpu_open(run, model, batch);
    flatclip_status status = session && calls ? FLATCLIP_OK : FLATCLIP_ERR_MEMORY;
    size_t count = 0;
    char what[48], words[80];

    flatclip_model_describe(model, &info);
    for (int i = run->rehearse ? 0 : -3;
         status == FLATCLIP_OK && count < MOST_CALLS && (count == 0 || spent < budget); i++) {
        const double start = seconds_now();
        status = flatclip_encode_pixels_u8(session, pixels, (size_t)batch, rows, NULL, &err);
        const double seconds = seconds_now() - start;
        if (i < 0)
            continue;
        calls[count++] = seconds;
        spent += seconds;
    }
    snprintf(what, sizeof what, "%s %s, batch %d", run->full, name, batch);
    if (status == FLATCLIP_OK) {
        const double median = sort_for_median(calls, count);
        snprintf(words, sizeof words, "%.3f ms a call, p99 %.3f ms, %.1f TFLOP/s", 1e3 * median,
                 1e3 * calls[(count * 99 - 1) / 100],
                 1e-12 * speed_forward_flop(&info, batch) / median);
        gpu_found(&run->report, GPU_MEASURED, what, batch / median, "images/s", words);
    } else {
        gpu_said(&run->report, GPU_FAIL, what, session ? err.message : "no session");
    }
    flatclip_session_free(session);
    free(calls);
}

static void time_model(gpu_run *run, flatclip_precision precision, const char *name,
                       const int *batches, int sizes)
{
    const int most = batches[sizes - 1];
    unsigned char *pixels = gpu_noise((size_t)most);
    float *rows = malloc((size_t)most * GPU_DIM * sizeof *rows);
    flatclip_model *model = gpu_load(run, run->full, precision);
    for (int b = 0; rows && model && b < sizes; b++)
        time_batch(run, model, name, batches[b], pixels, rows);
    flatclip_model_free(model);
    free(rows);
    free(pixels);
}

/* float32 is slow, and few will ask for it: small batches only. */
void gpu_speed(gpu_run *run)
{
    static const int batches[] = { 1, 2, 4, 8, 16, 32, 64, 112, 225, 256, 1024 };
    static const int some[] = { 1, 8, 32, 112, 225 };
    const int all = run->rehearse ? 2 : 11;
    time_model(run, FLATCLIP_PRECISION_F16, "f16", batches, all);
    time_model(run, FLATCLIP_PRECISION_BF16, "bf16", batches, all);
    time_model(run, FLATCLIP_PRECISION_F32, "f32", batches, run->rehearse ? 1 : 6);
    if (run->rehearse) {
        gpu_said(&run->report, GPU_SKIPPED, "f16 by cuBLASLt", "it knows nothing of an emulator");
        return;
    }
    setenv("FLATCLIP_GEMM", "cublaslt", 1);
    time_model(run, FLATCLIP_PRECISION_F16, "f16 by cuBLASLt", some, 5);
    unsetenv("FLATCLIP_GEMM");
}
