/* cuBLASLt's matrix product, as the measure of ours: loaded when it is asked for, because neither
 * building nor running flatclip needs it. */
#ifndef GPU_CUBLASLT_H
#define GPU_CUBLASLT_H

#include "bench/gpu/gpu_parts.h"
#include "kernels/launch.h"

/* Which one there is: "13.0.2", or why there is none. */
const char *gpu_cublaslt_words(void);

/* A product of [rows, k] and [columns, k], as fc_launch_gemm has it, without bias; numbers are
 * zero. The algorithm that its heuristics put first. NULL, and said, without the library. */
typedef struct gpu_cublaslt_product gpu_cublaslt_product;
gpu_cublaslt_product *gpu_cublaslt_open(gpu_run *run, const char *what, fc_number number, int rows,
                                        int columns, int k);
void gpu_cublaslt_run(void *product); /* a gpu_work */
void gpu_cublaslt_close(gpu_cublaslt_product *product);

#endif
