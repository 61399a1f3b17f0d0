/* It has the name of a kernel that must use tensor cores, matrices and asynchronous copies. */
#include <cuda_fp16.h>

template <int KEYS, class T>
__global__ void __launch_bounds__(128) attention_kernel(T *out, const T *in)
{
    T sum = in[0];
    for (int key = 0; key < KEYS; key++)
        sum = __hfma(in[threadIdx.x], in[key], sum);
    out[threadIdx.x] = sum;
}
template __global__ void attention_kernel<64, __half>(__half *, const __half *);
