/* Columns of 32 numbers: all lanes of a warp meet in one bank. */
__global__ void __launch_bounds__(128) bank_conflicts(float *out, const float *in)
{
    __shared__ float rows[128 * 32];
    for (int i = 0; i < 32; i++)
        rows[threadIdx.x * 32 + (unsigned)i] = in[threadIdx.x + 128 * (unsigned)i];
    __syncthreads();
    out[threadIdx.x] = rows[(threadIdx.x ^ 1) * 32 + 5];
}
