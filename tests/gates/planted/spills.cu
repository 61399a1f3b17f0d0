/* More numbers than 32 registers hold. */
__global__ void __launch_bounds__(1024, 2) spills(float *out, const float *in)
{
    float numbers[64];
#pragma unroll
    for (int i = 0; i < 64; i++)
        numbers[i] = in[i * 1024 + (int)threadIdx.x];
#pragma unroll
    for (int round = 0; round < 4; round++)
#pragma unroll
        for (int i = 0; i < 64; i++)
            numbers[i] = fmaf(numbers[(i * 7 + round) % 64], numbers[63 - i], numbers[i]);
#pragma unroll
    for (int i = 0; i < 64; i++)
        out[i * 1024 + (int)threadIdx.x] = numbers[i];
}
