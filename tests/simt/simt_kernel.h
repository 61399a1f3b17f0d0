/* What a kernel's source sees instead of the machine: the other body of kernels/device/device.cuh.
 * Everything here calls the models of tests/simt. */
#ifndef SIMT_KERNEL_H
#define SIMT_KERNEL_H

#include <math.h>

#include <vector_functions.h>

#include "tests/simt/simt_models.h"

namespace simt {

#define SIMT_UNWATCHED __attribute__((no_sanitize("thread")))

template <class Call> struct thunk {
    SIMT_UNWATCHED static void run(void *call) { (*(Call *)call)(); }
};

template <class Kernel, class... Arguments>
SIMT_UNWATCHED void queue(const char *name, dim3 grid, dim3 block, size_t shared_bytes,
                          CUstream_st *stream, Kernel kernel, Arguments... arguments)
{
    auto call = [kernel, ... copies = arguments]() SIMT_UNWATCHED { kernel(copies...); };
    queue_launch(stream, name, grid, block, shared_bytes, thunk<decltype(call)>::run, &call,
                 sizeof call);
}

} /* namespace simt */

/* -- Language --------------------------------------------------------------------------------- */

#undef __launch_bounds__
#undef __restrict__
#define __restrict__
#define threadIdx (simt::thread_index)
#define blockIdx (simt::block_index)
#define blockDim (simt::block_size)
#define gridDim (simt::grid_size)

#define KERNEL(max_threads, min_blocks) static void
#define DEVICE static inline __attribute__((always_inline))
#define DEVICE_MEMBER static inline __attribute__((always_inline))
#define DEVICE_METHOD inline __attribute__((always_inline))
#define SIMT_MODEL static __attribute__((noinline, unused, no_sanitize("thread")))

#define SHARED_BEGIN simt::Carver shared_carver_
#define SHARED(type, name, count) \
    type *name = (type *)simt::carve(shared_carver_, sizeof(type) * (count))
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    simt::queue(#kernel, grid, block, shared_bytes, stream, kernel, __VA_ARGS__)

/* -- Instructions ----------------------------------------------------------------------------- */

constexpr bool COPIES_ARE_ASYNC = true;

SIMT_MODEL void simt_syncthreads(int line = __builtin_LINE()) { simt::barrier(line); }
#define __syncthreads() simt_syncthreads()
SIMT_MODEL void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE())
{
    simt::warp_barrier(mask, line);
}

SIMT_MODEL void copy_async(void *to, const void *from, bool present, int line = __builtin_LINE())
{
    simt::copy_async(to, from, present, line, __builtin_return_address(0));
}
SIMT_MODEL void copy_commit() { simt::copy_commit(); }
template <int PENDING> SIMT_MODEL void copy_wait() { simt::copy_wait(PENDING); }

SIMT_MODEL void load_matrices(uint32_t (&r)[4], const void *row, int line = __builtin_LINE())
{
    simt::load_matrices(r, row, false, line, __builtin_return_address(0));
}
SIMT_MODEL void load_matrices_transposed(uint32_t (&r)[4], const void *row,
                                         int line = __builtin_LINE())
{
    simt::load_matrices(r, row, true, line, __builtin_return_address(0));
}
SIMT_MODEL void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16,
                             int line = __builtin_LINE())
{
    simt::multiply_add(d, a, b0, b1, true, line);
}
SIMT_MODEL void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16,
                             int line = __builtin_LINE())
{
    simt::multiply_add(d, a, b0, b1, false, line);
}

SIMT_MODEL float shuffle_xor(float value, int distance, int line = __builtin_LINE())
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = simt::shuffle(0xffffffffu, bits, (int)(simt::thread_index.x % 32) ^ distance, line);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

DEVICE float fast_exp(float x) { return expf(x); }
DEVICE float fast_divide(float a, float b) { return a / b; }
DEVICE float inverse_root(float x) { return 1.0f / sqrtf(x); }
DEVICE float reciprocal(float x) { return 1.0f / x; }
DEVICE float add(float a, float b) { return a + b; }
DEVICE float multiply(float a, float b) { return a * b; }
DEVICE float multiply_then_add(float a, float b, float c) { return fmaf(a, b, c); }

#endif
