#define _GNU_SOURCE
#include "bench/speed/speed_device.h"

#include <math.h>
#include <stdio.h>

#include "engine/base/error.h"

#ifdef FC_WITH_CUDA

#include <cuda_runtime_api.h>

#include "bench/device/device_ceiling.h"
#include "bench/device/device_cudnn.h"
#include "engine/cuda/cuda_device.h"

static flatclip_status make_stream(device_clock *clock, flatclip_error *err)
{
    return fc_cuda_check(cudaStreamCreateWithFlags(&clock->stream, cudaStreamDefault),
                         "cudaStreamCreateWithFlags", err);
}

static double measure_product(const device_clock *clock, flatclip_precision precision,
                              flatclip_error *err)
{
    int side;
    if (precision != FLATCLIP_PRECISION_F32)
        return device_ceiling_product(
            clock, precision == FLATCLIP_PRECISION_F16 ? FC_NUMBER_F16 : FC_NUMBER_BF16, &side,
            err);
    (void)fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "cuBLASLt is asked for 16-bit numbers alone");
    return (double)NAN;
}

void speed_device_ceiling(flatclip_precision precision, speed_ceiling *ceiling)
{
    device_clock clock = { .stream = NULL };
    flatclip_error err = { FLATCLIP_OK, "" };
    ceiling->known = ceiling->stream = (double)NAN;
    if (make_stream(&clock, &err) == FLATCLIP_OK) {
        ceiling->stream = device_ceiling_copy(&clock, &err);
        ceiling->known = measure_product(&clock, precision, &err);
        (void)cudaStreamDestroy(clock.stream);
    }
    snprintf(ceiling->why, sizeof ceiling->why, "%.190s", err.message);
}

double speed_device_cudnn(const flatclip_model_info *info, speed_stage stage, int batch,
                          flatclip_error *err)
{
    const device_cudnn_shape shape = { info->tokens, info->width, info->image_size,
                                       info->patch_size };
    const int is_attention = stage == SPEED_ATTENTION;
    device_clock clock = { .stream = NULL };
    double seconds = (double)NAN;
    if (make_stream(&clock, err) != FLATCLIP_OK)
        return seconds;
    seconds = device_cudnn_time(
        &clock, is_attention ? DEVICE_CUDNN_ATTENTION : DEVICE_CUDNN_PATCHES, &shape, batch, 0.1,
        err);
    (void)cudaStreamDestroy(clock.stream);
    return is_attention ? seconds * info->layers : seconds;
}

#else

void speed_device_ceiling(flatclip_precision precision, speed_ceiling *ceiling)
{
    (void)precision;
    ceiling->known = ceiling->stream = (double)NAN;
    snprintf(ceiling->why, sizeof ceiling->why, "this build has no CUDA");
}

double speed_device_cudnn(const flatclip_model_info *info, speed_stage stage, int batch,
                          flatclip_error *err)
{
    (void)info, (void)stage, (void)batch;
    (void)fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "this build has no CUDA");
    return (double)NAN;
}

#endif
