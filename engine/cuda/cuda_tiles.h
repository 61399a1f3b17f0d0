/* Which tile a matrix product uses, and how many images a forward pass takes, so that the blocks of
 * a launch come out even on the device's multiprocessors. Neither changes a bit of the result. */
#ifndef FC_CUDA_TILES_H
#define FC_CUDA_TILES_H

#include "engine/backend.h"
#include "kernels/launch.h"

/* The tile with the least estimated time for a product of [rows, k] and [columns, k]. */
fc_gemm_tile fc_cuda_tile(int rows, int columns, int multiprocessors);

/* The batch of at most most images with the least estimated time an image. */
int fc_cuda_best_batch(const fc_tower *tower, int multiprocessors, int most);

/* Batch sizes that have a graph of their own: 1, 2, 3, 4, 6, 8, 12 ..., and most itself. At most
 * FC_CUDA_BUCKETS, ascending; returns their number. */
enum { FC_CUDA_BUCKETS = 24 };
int fc_cuda_buckets(int most, int sizes[FC_CUDA_BUCKETS]);

#endif
