/* The head of a tower in one kernel: LayerNorm of the pooled row, projection, and the L2 norm.
 *
 * One block an image. The first warp normalises the row; then each warp computes every eighth
 * number of the embedding. */
#include "kernels/device/row_norm.cuh"
#include "kernels/launch.h"

constexpr int HEAD_WARPS = 8;

/* row . w, over width numbers, in one order. */
template <class T> DEVICE float dot(const float *row, const T *w, int width)
{
    float sum = 0.0f;
    for (int i = lane(); i < width; i += WARP)
        sum = multiply_then_add(row[i], to_float(w[i]), sum);
    return warp_sum(sum);
}

template <int VECTORS, class T>
KERNEL(HEAD_WARPS *WARP, 2)
head_kernel(float *out, const float *in, size_t in_stride, const float *gain, const float *bias,
            const T *weight, int width, int embed, int normalize)
{
    SHARED_BEGIN;
    SHARED(float, normed, FC_CUDA_MAX_WIDTH);
    SHARED(float, embedding, FC_CUDA_MAX_WIDTH);
    if (warp() == 0) {
        warp_row<VECTORS> row;
        load_row(row, in + (size_t)blockIdx.x * in_stride, width);
        normalize_row(row, gain, bias, width);
        store_row(row, normed, width);
    }
    __syncthreads();
    for (int e = warp(); e < embed; e += HEAD_WARPS) {
        const float value = dot(normed, weight + (size_t)e * (size_t)width, width);
        if (lane() == 0)
            embedding[e] = value;
    }
    __syncthreads();
    float squares = 0.0f, scale = 1.0f;
    for (int e = lane(); e < embed; e += WARP)
        squares = multiply_then_add(embedding[e], embedding[e], squares);
    squares = warp_sum(squares);
    if (normalize) /* what has no direction, or overflows, becomes NaN, and is an error later */
        scale = squares > 0.0f && squares < INFINITY ? inverse_root(squares) : NAN;
    for (int e = (int)threadIdx.x; e < embed; e += HEAD_WARPS * WARP)
        out[(size_t)blockIdx.x * (size_t)embed + (size_t)e] = multiply(embedding[e], scale);
}

template <class T> struct head_launch {
    fc_cuda_stream stream;
    fc_cuda_head h;

    template <int VECTORS> void run() const
    {
        float *out = h.out;
        const float *in = h.in, *gain = h.gain, *bias = h.bias;
        const T *weight = (const T *)h.weight;
        const size_t in_stride = h.in_stride;
        const int width = h.width, embed = h.embed, normalize = h.normalize;
        LAUNCH((head_kernel<VECTORS, T>), dim3((unsigned)h.batch), dim3(HEAD_WARPS * WARP),
               2 * FC_CUDA_MAX_WIDTH * sizeof(float), stream, out, in, in_stride, gain, bias,
               weight, width, embed, normalize);
    }
};

extern "C" void fc_launch_head(fc_cuda_stream stream, const fc_cuda_head *head)
{
    switch (head->number) {
    case FC_NUMBER_F32: choose_vectors(head->width, head_launch<float>{ stream, *head }); break;
    case FC_NUMBER_BF16: choose_vectors(head->width, head_launch<bf16>{ stream, *head }); break;
    case FC_NUMBER_F16: choose_vectors(head->width, head_launch<f16>{ stream, *head }); break;
    }
}
