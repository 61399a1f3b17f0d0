/* LayerNorm, and the rows that do not come from a product: one warp a row, four rows a block.
 *
 * Traffic is all there is to it: a row is read once and written once. */
#include "kernels/device/row_norm.cuh"
#include "kernels/launch.h"

constexpr int ROWS_A_BLOCK = 4;

/* Blocks on a multiprocessor: the longest rows need the registers of more. */
template <int VECTORS> struct resident {
    static constexpr int BLOCKS = VECTORS > 8 ? 2 : 4;
};

template <int VECTORS, class T>
KERNEL(ROWS_A_BLOCK *WARP, resident<VECTORS>::BLOCKS)
layernorm_kernel(T *out, size_t out_stride, const float *in, size_t in_stride, const float *gain,
                 const float *bias, int rows, int width)
{
    const int r = (int)blockIdx.x * ROWS_A_BLOCK + warp();
    if (r >= rows)
        return;
    warp_row<VECTORS> row;
    load_row(row, in + (size_t)r * in_stride, width);
    normalize_row(row, gain, bias, width);
    store_row(row, out + (size_t)r * out_stride, width);
}

/* x = LayerNorm([class token; patches] + position), where the patches are in x already. */
template <int VECTORS>
KERNEL(ROWS_A_BLOCK *WARP, resident<VECTORS>::BLOCKS)
tokens_kernel(float *x, size_t stride, const float *class_token, const float *position,
              const float *gain, const float *bias, int rows, int tokens, int width)
{
    const int r = (int)blockIdx.x * ROWS_A_BLOCK + warp();
    if (r >= rows)
        return;
    const int token = r % tokens;
    const float *place = position + (size_t)token * (size_t)width;
    warp_row<VECTORS> row;
    load_row(row, token ? x + (size_t)r * stride : class_token, width);
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        if (!holds(i, width))
            continue;
        const float4 p = *(const float4 *)(place + 128 * i + 4 * lane());
        row.v[i] = make_float4(add(row.v[i].x, p.x), add(row.v[i].y, p.y),
                               add(row.v[i].z, p.z), add(row.v[i].w, p.w));
    }
    normalize_row(row, gain, bias, width);
    store_row(row, x + (size_t)r * stride, width);
}

KERNEL(256, 4)
gather_kernel(unsigned char *out, size_t out_stride, const unsigned char *in, size_t in_stride,
              int step, size_t bytes)
{
    const unsigned char *from = in + (size_t)blockIdx.x * (size_t)step * in_stride;
    unsigned char *to = out + (size_t)blockIdx.x * out_stride;
    for (size_t i = 16 * (size_t)threadIdx.x; i < bytes; i += 16 * 256)
        *(uint4 *)(to + i) = *(const uint4 *)(from + i);
}

/* -- Launchers -------------------------------------------------------------------------------- */

static dim3 blocks_for(int rows)
{
    return dim3((unsigned)(rows + ROWS_A_BLOCK - 1) / ROWS_A_BLOCK);
}

template <class T> struct layernorm_launch {
    fc_cuda_stream stream;
    T *out;
    size_t out_stride;
    const float *in;
    size_t in_stride;
    const float *gain, *bias;
    int rows, width;

    template <int VECTORS> void run() const
    {
        LAUNCH((layernorm_kernel<VECTORS, T>), blocks_for(rows), dim3(ROWS_A_BLOCK * WARP), 0,
               stream, out, out_stride, in, in_stride, gain, bias, rows, width);
    }
};

template <class T>
static void launch_layernorm(fc_cuda_stream stream, void *out, size_t out_stride, const float *in,
                             size_t in_stride, const float *gain, const float *bias, int rows,
                             int width)
{
    choose_vectors(width, layernorm_launch<T>{ stream, (T *)out, out_stride, in, in_stride, gain,
                                               bias, rows, width });
}

extern "C" void fc_launch_layernorm(fc_cuda_stream stream, fc_number number, void *out,
                                    size_t out_stride, const float *in, size_t in_stride,
                                    const float *gain, const float *bias, int rows, int width)
{
    switch (number) {
    case FC_NUMBER_F32:
        launch_layernorm<float>(stream, out, out_stride, in, in_stride, gain, bias, rows, width);
        break;
    case FC_NUMBER_BF16:
        launch_layernorm<bf16>(stream, out, out_stride, in, in_stride, gain, bias, rows, width);
        break;
    case FC_NUMBER_F16:
        launch_layernorm<f16>(stream, out, out_stride, in, in_stride, gain, bias, rows, width);
        break;
    }
}

struct tokens_launch {
    fc_cuda_stream stream;
    float *x;
    size_t stride;
    const float *class_token, *position, *gain, *bias;
    int rows, tokens, width;

    template <int VECTORS> void run() const
    {
        LAUNCH((tokens_kernel<VECTORS>), blocks_for(rows), dim3(ROWS_A_BLOCK * WARP), 0, stream, x,
               stride, class_token, position, gain, bias, rows, tokens, width);
    }
};

extern "C" void fc_launch_tokens(fc_cuda_stream stream, float *x, size_t x_stride,
                                 const float *class_token, const float *position,
                                 const float *gain, const float *bias, int batch, int tokens,
                                 int width)
{
    choose_vectors(width, tokens_launch{ stream, x, x_stride, class_token, position, gain, bias,
                                         batch * tokens, tokens, width });
}

extern "C" void fc_launch_gather(fc_cuda_stream stream, void *out, size_t out_stride,
                                 const void *in, size_t in_stride, int step, int rows,
                                 size_t bytes)
{
    unsigned char *to = (unsigned char *)out;
    const unsigned char *from = (const unsigned char *)in;
    LAUNCH(gather_kernel, dim3((unsigned)rows), dim3(256), 0, stream, to, out_stride, from,
           in_stride, step, bytes);
}
