/* What kernels are written in: thin wrappers of the machine. This is the only file with inline PTX.
 *
 * It has two bodies. nvcc takes the instructions below; tests/simt compiles the same kernels as
 * host C++ against models of these instructions, which check every use. Kernels use
 * nothing else of the machine: no asm, no static __shared__, no launch brackets. */
#ifndef FC_DEVICE_CUH
#define FC_DEVICE_CUH

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef __nv_bfloat16 bf16;
typedef __half f16;

#ifdef FC_SIMT
#include FC_SIMT /* the models' header */
#else

/* A kernel, with its largest block and how many of them share a multiprocessor. */
#define KERNEL(max_threads, min_blocks) \
    static __global__ void __launch_bounds__(max_threads, min_blocks)
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER static __device__ __forceinline__
#define DEVICE_METHOD __device__ __forceinline__

/* Shared memory is carved from one dynamic block, array by array, in the same order by every
 * thread: SHARED_BEGIN; SHARED(float, sums, 8); */
#define SHARED_BEGIN                                                  \
    extern __shared__ __align__(128) unsigned char shared_block_[];   \
    size_t shared_used_ = 0
#define SHARED(type, name, count)                                     \
    type *name = (type *)(shared_block_ + shared_used_);              \
    shared_used_ += (sizeof(type) * (count) + 127) / 128 * 128

#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)

DEVICE uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* -- Asynchronous copies: 16 bytes from global to shared memory ------------------------------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool COPIES_ARE_ASYNC = false;
#else
constexpr bool COPIES_ARE_ASYNC = true;
#endif

/* present 0 writes zeros and does not touch global memory. Before compute capability 8.0 there are
 * none: the copy is done at once, and waiting is free. */
DEVICE void copy_async(void *to, const void *from, bool present)
{
#if __CUDA_ARCH__ >= 800
    const int bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes) : "memory");
#else
    *(uint4 *)to = present ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
#endif
}

/* Ends a group of copies; waits until at most PENDING groups are under way. */
DEVICE void copy_commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int PENDING> DEVICE void copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

/* -- Tensor cores ----------------------------------------------------------------------------- */

/* Four 8x8 matrices of 16-bit numbers from shared memory: lanes 8 i to 8 i + 7 give the addresses
 * of the rows of matrix i; lane l receives elements 2 (l % 4) and the next of row l / 4 of each. */
DEVICE void load_matrices(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)) : "memory");
}
DEVICE void load_matrices_transposed(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)) : "memory");
}

/* d [16, 8] += a [16, 16] b [16, 8], K ascending, as one warp holds them in registers (PTX ISA,
 * m16n8k16). Compute capability 7.5 has half of it, and no bf16. */
DEVICE void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    __trap();
#endif
}
DEVICE void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

/* -- Warps and arithmetic --------------------------------------------------------------------- */

DEVICE float shuffle_xor(float value, int distance)
{
    return __shfl_xor_sync(0xffffffffu, value, distance);
}

/* e^x and a / b as the special function units give them: a few units in the last place. */
DEVICE float fast_exp(float x) { return __expf(x); }
DEVICE float fast_divide(float a, float b) { return __fdividef(a, b); }
DEVICE float inverse_root(float x) { return rsqrtf(x); }

/* 1 / x rounded as division rounds it, for x from 1 to 2^24, in the instructions that division has
 * for them. Division would keep a subroutine beside them for the smallest and the largest. */
DEVICE float reciprocal(float x)
{
    float estimate;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(x));
    return __fmaf_rn(estimate, __fmaf_rn(-x, estimate, 1.0f), estimate);
}

/* No compiler fuses these into one instruction, so that all tiles round alike. */
DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
DEVICE float multiply(float a, float b) { return __fmul_rn(a, b); }
DEVICE float multiply_then_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#endif

/* -- Numbers ---------------------------------------------------------------------------------- */

DEVICE float to_float(float x) { return x; }
DEVICE float to_float(bf16 x) { return __bfloat162float(x); }
DEVICE float to_float(f16 x) { return __half2float(x); }

template <class T> struct converter;
template <> struct converter<float> {
    DEVICE_MEMBER float from(float x) { return x; }
};
template <> struct converter<bf16> {
    DEVICE_MEMBER bf16 from(float x) { return __float2bfloat16_rn(x); }
};
template <> struct converter<f16> {
    DEVICE_MEMBER f16 from(float x) { return __float2half_rn(x); }
};

/* Two numbers of 16 bits in one register, the first in the lower half. */
template <class T> DEVICE uint32_t pack(float low, float high)
{
    const T pair[2] = { converter<T>::from(low), converter<T>::from(high) };
    uint32_t bits;
    memcpy(&bits, pair, sizeof bits);
    return bits;
}

template <class T> DEVICE float2 unpack(uint32_t bits)
{
    T pair[2];
    memcpy((void *)pair, &bits, sizeof bits);
    return make_float2(to_float(pair[0]), to_float(pair[1]));
}

/* 8 numbers of 16 bits, as 16 bytes at a multiple of 16. float32 products load single numbers. */
DEVICE void store8(float *, const float (&)[8]) {}
template <class T> DEVICE void store8(T *to, const T (&numbers)[8])
{
    uint4 bits;
    memcpy(&bits, numbers, sizeof bits);
    *(uint4 *)to = bits;
}

/* -- Rows in a warp --------------------------------------------------------------------------- */

constexpr int WARP = 32;

DEVICE int lane() { return (int)(threadIdx.x % WARP); }
DEVICE int warp() { return (int)(threadIdx.x / WARP); }

/* The sum over all lanes, in one order, the same in every lane. */
DEVICE float warp_sum(float value)
{
    for (int distance = WARP / 2; distance; distance /= 2)
        value = add(value, shuffle_xor(value, distance));
    return value;
}

#endif
