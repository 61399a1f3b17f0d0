/* A constant without its f: the product is one of doubles. */
__global__ void __launch_bounds__(128) double_precision(float *out, const float *in)
{
    out[threadIdx.x] = (float)(in[threadIdx.x] * 1.702);
}
