/* Devices and memory. */
#include "tests/fakecuda/fakecuda_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simt/simt.h"

using namespace fakecuda;

static size_t live_bytes()
{
    return fakecuda_get_holdings().device_bytes;
}

static cudaError_t check_device(int index)
{
    return index >= 0 && index < machine.devices
               ? cudaSuccess : fails(cudaErrorInvalidDevice, "there is no such device");
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    ENTER(QUESTION);
    *count = machine.devices;
    return machine.devices ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int index)
{
    ENTER(QUESTION);
    return check_device(index);
}

cudaError_t cudaGetDevice(int *index)
{
    ENTER(QUESTION);
    *index = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int index)
{
    ENTER(QUESTION);
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = machine.capability / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = machine.capability % 10; break;
    case cudaDevAttrMultiProcessorCount: *value = machine.multiprocessors; break;
    default: return fails(cudaErrorInvalidValue, "an attribute that the stand-in does not know");
    }
    return check_device(index);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int index)
{
    ENTER(QUESTION);
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "stand-in (emulated)");
    properties->major = machine.capability / 10;
    properties->minor = machine.capability % 10;
    properties->multiProcessorCount = machine.multiprocessors;
    properties->totalGlobalMem = machine.memory;
    return check_device(index);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    ENTER(QUESTION);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    ENTER(QUESTION);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    ENTER(QUESTION);
    *total = machine.memory;
    *left = machine.memory - live_bytes();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **block, size_t bytes)
{
    ENTER(OTHER);
    if (spoils_a_recording())
        return fails(cudaErrorStreamCaptureUnsupported, "cudaMalloc while a stream is recorded");
    if (bytes > machine.memory - live_bytes())
        return fails(cudaErrorMemoryAllocation, "the device has no more memory");
    *block = simt::allocate(bytes, "device memory");
    device_blocks[(char *)*block] = bytes;
    return cudaSuccess;
}

/* What is freed may still be in use: everything that is queued runs before. */
cudaError_t cudaFree(void *block)
{
    ENTER_GIVING;
    if (!block)
        return entered_;
    drain_all();
    if (!device_blocks.erase((char *)block))
        return fails(cudaErrorInvalidValue, "cudaFree of what is no allocation");
    simt::release(block);
    return entered_;
}

cudaError_t cudaHostAlloc(void **block, size_t bytes, unsigned)
{
    ENTER(OTHER);
    if (spoils_a_recording())
        return fails(cudaErrorStreamCaptureUnsupported, "cudaHostAlloc while a stream is recorded");
    *block = malloc(bytes ? bytes : 1);
    pinned_blocks[(char *)*block] = bytes;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **block, size_t bytes)
{
    return cudaHostAlloc(block, bytes, 0);
}

cudaError_t cudaFreeHost(void *block)
{
    ENTER_GIVING;
    if (!block)
        return entered_;
    drain_all();
    if (!pinned_blocks.erase((char *)block))
        return fails(cudaErrorInvalidValue, "cudaFreeHost of what is no allocation");
    free(block);
    return entered_;
}

cudaError_t cudaGetLastError(void)
{
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    return take_last_error(true);
}

cudaError_t cudaPeekAtLastError(void)
{
    const std::lock_guard<std::recursive_mutex> locked(mutex);
    return take_last_error(false);
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorNotPermitted: return "operation not permitted";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return "an error of the stand-in runtime";
    }
}

} /* extern "C" */
