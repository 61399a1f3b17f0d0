/* The backend's operations as launches of CUDA kernels on one stream. */
#ifndef FC_CUDA_BACKEND_H
#define FC_CUDA_BACKEND_H

#include "engine/backend.h"
#include "engine/cuda/cuda_cublaslt.h"
#include "kernels/launch.h"

typedef struct {
    fc_backend base;
    fc_cuda_stream stream;
    fc_number number;       /* what matrix products read */
    int multiprocessors;
    int forced_tile;        /* an fc_gemm_tile for every product, or -1: the best one */
    fc_cublaslt_session *cublaslt; /* what multiplies instead of our kernels, or NULL */
} fc_cuda_backend;

void fc_cuda_backend_init(fc_cuda_backend *be, fc_cuda_stream stream, fc_number number,
                          int multiprocessors);

#endif
