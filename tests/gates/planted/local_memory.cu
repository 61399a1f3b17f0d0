/* An array with indices that are not known before: it lies in local memory. */
__global__ void __launch_bounds__(128) local_memory(float *out, const float *in, const int *where)
{
    float numbers[24];
    for (int i = 0; i < 24; i++)
        numbers[i] = 0.0f;
    for (int i = 0; i < 100; i++)
        numbers[where[i] % 24] += in[128 * i + (int)threadIdx.x];
    out[threadIdx.x] = numbers[where[threadIdx.x] % 24];
}
