/* A division as C means it: a subroutine for the smallest and the largest numbers. */
__global__ void __launch_bounds__(128) slow_path(float *out, const float *in)
{
    out[threadIdx.x] = in[threadIdx.x] / in[threadIdx.x + 128];
}
