#include "bench/device/device_memory.h"

#include <cuda_runtime_api.h>

#include "engine/base/error.h"
#include "engine/cuda/cuda_device.h"

static flatclip_status take(fc_cuda_stream stream, size_t bytes, char **zeros, flatclip_error *err)
{
    FC_TRY(fc_cuda_check(cudaMalloc((void **)zeros, bytes), "cudaMalloc", err));
    FC_TRY(fc_cuda_check(cudaMemsetAsync(*zeros, 0, bytes, stream), "cudaMemsetAsync", err));
    return fc_cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", err);
}

char *device_zeros(fc_cuda_stream stream, size_t bytes, flatclip_error *err)
{
    char *zeros = NULL;
    if (take(stream, bytes, &zeros, err) == FLATCLIP_OK)
        return zeros;
    (void)cudaFree(zeros);
    return NULL;
}
