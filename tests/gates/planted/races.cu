/* What only an order of threads shows: each of these must be reported, the first one must not. */
#include "kernels/device/device.cuh"

/* Every thread reads what its neighbour has copied. */
DEVICE void rotate(float *out, const float *in, bool wait, bool barrier)
{
    SHARED_BEGIN;
    SHARED(float, row, 4 * 128);
    copy_async(row + 4 * threadIdx.x, in + 4 * threadIdx.x, true);
    copy_commit();
    if (wait)
        copy_wait<0>();
    if (barrier)
        __syncthreads();
    out[128 * blockIdx.x + threadIdx.x] = row[4 * ((threadIdx.x + 1) % 128)];
}

extern "C" __global__ void __launch_bounds__(128) sound(float *out, const float *in)
{
    rotate(out, in, true, true);
}
extern "C" __global__ void __launch_bounds__(128) wait_left_out(float *out, const float *in)
{
    rotate(out, in, false, true);
}
extern "C" __global__ void __launch_bounds__(128) barrier_left_out(float *out, const float *in)
{
    rotate(out, in, true, false);
}

extern "C" __global__ void __launch_bounds__(128) blocks_overlap(float *out, const float *in)
{
    out[127 * blockIdx.x + threadIdx.x] = in[threadIdx.x];
}

/* Half of the threads wait for the other half. */
extern "C" __global__ void __launch_bounds__(128) barrier_of_some(float *out, const float *in)
{
    float number = in[threadIdx.x];
    if (threadIdx.x < 64)
        __syncthreads();
    out[128 * blockIdx.x + threadIdx.x] = number;
}

/* A barrier between writing and reading, none before the next writing. */
extern "C" __global__ void __launch_bounds__(128) refilled_early(float *out, const float *in,
                                                                 int rounds)
{
    SHARED_BEGIN;
    SHARED(float, row, 128);
    float sum = 0.0f;
    for (int i = 0; i < rounds; i++) {
        row[threadIdx.x] = in[128 * i + (int)threadIdx.x];
        __syncthreads();
        sum += row[(threadIdx.x + 1) % 128];
    }
    out[128 * blockIdx.x + threadIdx.x] = sum;
}
