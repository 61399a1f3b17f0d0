/* What the parts share: stored numbers, models, errors. */
#define _GNU_SOURCE
#include "bench/gpu/gpu_parts.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "bench/device/device_cublaslt.h"
#include "bench/device/device_memory.h"
#include "bench/measure.h"

static const char goldens_path[] = "tests/data/gpu_goldens.bin";

gpu_goldens *gpu_read_goldens(gpu_run *run)
{
    gpu_goldens *goldens = malloc(sizeof *goldens);
    FILE *file = fopen(goldens_path, "rb");
    if (goldens && file && fread(goldens, sizeof *goldens, 1, file) == 1) {
        fclose(file);
        return goldens;
    }
    if (file)
        fclose(file);
    free(goldens);
    gpu_said(&run->report, GPU_FAIL, goldens_path, "cannot be read: run this in flatclip's folder");
    return NULL;
}

flatclip_model *gpu_load(gpu_run *run, const char *name, flatclip_precision precision)
{
    flatclip_error err;
    flatclip_model *model = NULL;
    flatclip_model_options options = FLATCLIP_MODEL_OPTIONS_INIT;
    options.device = FLATCLIP_DEVICE_CUDA;
    options.precision = precision;
    if (flatclip_model_load(name, &options, &model, &err) != FLATCLIP_OK)
        gpu_said(&run->report, GPU_FAIL, name, err.message);
    return model;
}

flatclip_session *gpu_open(gpu_run *run, const flatclip_model *model, int max_batch)
{
    flatclip_error err;
    flatclip_session *session = NULL;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = max_batch;
    options.threads = 1;
    if (flatclip_session_create(model, &options, &session, &err) != FLATCLIP_OK)
        gpu_said(&run->report, GPU_FAIL, "opening a session", err.message);
    return session;
}

unsigned char *gpu_noise(size_t count)
{
    unsigned char *pixels = new_noise(count * GPU_PICTURE);
    if (!pixels) {
        fputs("flatclip-gpu-check: no memory for pixels\n", stderr);
        exit(1);
    }
    return pixels;
}

char *gpu_zeros(gpu_run *run, size_t bytes)
{
    flatclip_error err;
    char *zeros = device_zeros(run->clock.stream, bytes, &err);
    if (!zeros)
        gpu_said(&run->report, GPU_FAIL, "memory for zeros", err.message);
    return zeros;
}

double gpu_time(gpu_run *run, device_work *work, void *context, double seconds)
{
    flatclip_error err;
    const double taken = device_time(&run->clock, work, context, seconds, &err);
    if (isnan(taken))
        gpu_said(&run->report, GPU_FAIL, "work that is timed", err.message);
    return taken;
}

double gpu_library_time(gpu_run *run, const char *what, const fc_gemm *gemm, double seconds)
{
    flatclip_error err = { FLATCLIP_OK, "it knows nothing of an emulator" };
    const double taken = run->rehearse
                             ? (double)NAN
                             : device_cublaslt_time(&run->clock, gemm, seconds, &err);
    if (isnan(taken))
        gpu_said(&run->report, GPU_SKIPPED, what, err.message);
    return taken;
}

int gpu_good(gpu_run *run, int code, const char *call)
{
    if (code == cudaSuccess)
        return 1;
    gpu_said(&run->report, GPU_FAIL, call, cudaGetErrorString((cudaError_t)code));
    return 0;
}
