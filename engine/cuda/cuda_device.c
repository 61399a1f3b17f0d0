/* Devices, and the errors of the runtime in our words. */
#include "engine/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

#include "kernels/launch.h"

enum { OLDEST_CAPABILITY = 75, FIRST_WITH_BF16 = 80 };

flatclip_status fc_cuda_check(int code, const char *call, flatclip_error *err)
{
    if (code == cudaSuccess)
        return FLATCLIP_OK;
    /* The runtime remembers an error until it is asked; reported once, it must not be found again,
       behind the next launch of ours or of the host's. */
    (void)cudaGetLastError();
    const char *text = cudaGetErrorString((cudaError_t)code);
    switch (code) {
    case cudaErrorMemoryAllocation:
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "%.60s: the CUDA device or its driver is out of "
                       "memory; use a smaller max_batch, or device cpu", call);
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "%.60s: %.100s; use device cpu or auto", call,
                       text);
    default:
        return fc_fail(err, FLATCLIP_ERR_DEVICE, "%.60s: %.100s; CUDA may work again in a new "
                       "process", call, text);
    }
}

static flatclip_status read_attribute(int *value, enum cudaDeviceAttr attribute, int index,
                                      flatclip_error *err)
{
    return fc_cuda_check(cudaDeviceGetAttribute(value, attribute, index), "cudaDeviceGetAttribute",
                         err);
}

flatclip_status fc_cuda_device_open(int index, fc_cuda_device *device, flatclip_error *err)
{
    int count = 0, major, minor;
    struct cudaDeviceProp properties;
    *device = (fc_cuda_device){ .index = index };
    const cudaError_t counted = cudaGetDeviceCount(&count);
    const flatclip_status status = fc_cuda_check(counted, "cudaGetDeviceCount", err);
    if (counted == cudaErrorInsufficientDriver)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "device cuda: there is no CUDA driver, or it "
                       "is older than this build's CUDA; install NVIDIA's driver, or use device "
                       "cpu");
    if (counted == cudaErrorNoDevice || (counted == cudaSuccess && index >= count))
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "device cuda: there is no device %d (this "
                       "machine has %d); use another one, or device cpu", index, count);
    FC_TRY(status);
    FC_TRY(read_attribute(&major, cudaDevAttrComputeCapabilityMajor, index, err));
    FC_TRY(read_attribute(&minor, cudaDevAttrComputeCapabilityMinor, index, err));
    FC_TRY(read_attribute(&device->multiprocessors, cudaDevAttrMultiProcessorCount, index, err));
    FC_TRY(fc_cuda_check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties",
                         err));
    device->is_only = count == 1;
    device->capability = 10 * major + minor;
    snprintf(device->name, sizeof device->name, "%.60s", properties.name);
    if (device->capability < OLDEST_CAPABILITY)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "device cuda:%d, %.60s, has compute "
                       "capability %d.%d; 7.5 is the least; use device cpu", index, device->name,
                       major, minor);
    return FLATCLIP_OK;
}

flatclip_status fc_cuda_device_use(const fc_cuda_device *device, flatclip_error *err)
{
    if (device->is_only)
        return FLATCLIP_OK;
    return fc_cuda_check(cudaSetDevice(device->index), "cudaSetDevice", err);
}

flatclip_status fc_cuda_device_check(const fc_cuda_device *device, flatclip_precision precision,
                                     const fc_tower *tower, flatclip_error *err)
{
    if (precision == FLATCLIP_PRECISION_BF16 && device->capability < FIRST_WITH_BF16)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "precision bf16 needs compute capability "
                       "8.0, and %.60s has %d.%d; use f16", device->name, device->capability / 10,
                       device->capability % 10);
    if (tower->seq > FC_CUDA_MAX_TOKENS)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "device cuda has no attention kernel for the "
                       "%d tokens of this model (%d at most); use device cpu", tower->seq,
                       FC_CUDA_MAX_TOKENS);
    if (tower->width > FC_CUDA_MAX_WIDTH || tower->embed > FC_CUDA_MAX_WIDTH)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "device cuda has no kernels for rows of %d "
                       "numbers (%d at most); use device cpu",
                       tower->width > tower->embed ? tower->width : tower->embed,
                       FC_CUDA_MAX_WIDTH);
    return FLATCLIP_OK;
}
