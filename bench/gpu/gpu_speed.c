/* Which device this is, what it can do at most, and how long encode calls take. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/device/device_ceiling.h"
#include "bench/device/device_cublaslt.h"
#include "bench/device/device_cudnn.h"
#include "bench/gpu/gpu_parts.h"
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
    gpu_said(&run->report, GPU_MEASURED, "cuBLASLt", device_cublaslt_words());
    gpu_said(&run->report, GPU_MEASURED, "cuDNN", device_cudnn_words());
}

/* -- Ceilings --------------------------------------------------------------------------------- */

typedef struct {
    char *device, *host;
    size_t bytes;
} memories;

static void upload(fc_cuda_stream stream, void *context)
{
    const memories *m = context;
    (void)cudaMemcpyAsync(m->device, m->host, m->bytes, cudaMemcpyHostToDevice, stream);
}

/* The smallest kernel that there is. */
static void launch(fc_cuda_stream stream, void *context)
{
    const memories *m = context;
    fc_launch_gather(stream, m->device, 16, m->device + 16, 16, 1, 1, 16);
}

static void measure_host(gpu_run *run)
{
    memories m = { .bytes = run->rehearse ? 1 << 10 : (size_t)128 << 20 };
    m.device = gpu_zeros(run, m.bytes);
    if (m.device && gpu_good(run, cudaHostAlloc((void **)&m.host, m.bytes, cudaHostAllocDefault),
                             "cudaHostAlloc")) {
        memset(m.host, 0, m.bytes);
        gpu_found(&run->report, GPU_MEASURED, "launch after launch",
                  1e6 * gpu_time(run, launch, &m, 0.2), "us", NULL);
        gpu_found(&run->report, GPU_MEASURED, "pinned host to device",
                  1e-9 * (double)m.bytes / gpu_time(run, upload, &m, 0.5), "GB/s", NULL);
    }
    (void)cudaFreeHost(m.host);
    (void)cudaFree(m.device);
}

static void measure_memory(gpu_run *run)
{
    flatclip_error err;
    const double rate = device_ceiling_copy(&run->clock, &err);
    if (isnan(rate))
        gpu_said(&run->report, GPU_FAIL, "memory, read and written", err.message);
    else
        gpu_found(&run->report, GPU_MEASURED, "memory, read and written", 1e-9 * rate, "GB/s",
                  NULL);
}

static void measure_product(gpu_run *run, fc_number number, const char *name)
{
    flatclip_error err = { FLATCLIP_OK, "it knows nothing of an emulator" };
    char words[48];
    int side = 0;
    const double rate = run->rehearse ? (double)NAN
                                      : device_ceiling_product(&run->clock, number, &side, &err);
    snprintf(words, sizeof words, "%d cubed", side);
    if (isnan(rate))
        gpu_said(&run->report, GPU_SKIPPED, name, err.message);
    else
        gpu_found(&run->report, GPU_MEASURED, name, 1e-12 * rate, "TFLOP/s", words);
}

void gpu_ceilings(gpu_run *run)
{
    measure_host(run);
    measure_memory(run);
    measure_product(run, FC_NUMBER_F16, "cuBLASLt f16, square");
    measure_product(run, FC_NUMBER_BF16, "cuBLASLt bf16, square");
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
