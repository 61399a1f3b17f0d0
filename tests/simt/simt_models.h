/* The instructions that kernels use, as functions of the emulator. */
#ifndef SIMT_MODELS_H
#define SIMT_MODELS_H

#include "tests/simt/simt.h"

struct CUstream_st;

namespace simt {

extern dim3 thread_index, block_index, block_size, grid_size;

/* Where shared memory is carved: each thread has one. */
struct Carver {
    size_t offset = 0;
    int arrays = 0;
};
void *carve(Carver &carver, size_t bytes);

/* line is that of the kernel's source: compilers clone calls, so that addresses do not tell whether
 * two threads are at the same place. site is such an address, which tells what file it is in. */
void barrier(int line);
void warp_barrier(unsigned mask, int line);
uint32_t shuffle(unsigned mask, uint32_t value, int source, int line);
void copy_async(void *to, const void *from, bool present, int line, const void *site);
void copy_commit();
void copy_wait(int pending);
void load_matrices(uint32_t *r, const void *row, bool transposed, int line, const void *site);
void multiply_add(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, bool is_bf16, int line);

/* A launch as plain data, that can be stored and run later: a copy of what it is called with. The
 * program that links the kernels says what becomes of it. */
void queue_launch(CUstream_st *stream, const char *name, dim3 grid, dim3 block, size_t shared_bytes,
                  void (*body)(void *), const void *arguments, size_t bytes);

} /* namespace simt */

#endif
