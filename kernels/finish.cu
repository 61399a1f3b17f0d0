/* What a matrix product of another library lacks: bias and activation, in a pass of its own over
 * the rows that it left. Ours have both in their epilogue; this is what that saves. */
#include "kernels/device/epilogues.cuh"
#include "kernels/launch.h"

constexpr int THREADS = 256;

/* A thread has two neighbouring columns, as in an epilogue; a block has 512 of a row. */
template <class T, int EPILOGUE>
KERNEL(THREADS, 4) finish_kernel(T *out, size_t stride, const float *bias, int columns)
{
    const int n = 2 * ((int)blockIdx.y * THREADS + (int)threadIdx.x), m = (int)blockIdx.x;
    if (n >= columns)
        return;
    const float2 sums = unpack<T>(*(const uint32_t *)(out + (size_t)m * stride + (size_t)n));
    const plain_epilogue<T, EPILOGUE> epilogue = { out, stride, bias };
    epilogue(m, n, sums.x, sums.y);
}

/* -- Launchers -------------------------------------------------------------------------------- */

template <class T, int EPILOGUE> static void launch(fc_cuda_stream stream, const fc_gemm *g)
{
    T *out = (T *)g->out;
    const dim3 grid((unsigned)g->rows, (unsigned)(g->columns + 2 * THREADS - 1) / (2 * THREADS));
    LAUNCH((finish_kernel<T, EPILOGUE>), grid, dim3(THREADS), 0, stream, out, g->out_stride,
           g->bias, g->columns);
}

template <class T> static void launch_epilogue(fc_cuda_stream stream, const fc_gemm *g)
{
    switch (g->epilogue) {
    case FC_GEMM_BIAS: launch<T, FC_GEMM_BIAS>(stream, g); break;
    case FC_GEMM_BIAS_QUICK_GELU: launch<T, FC_GEMM_BIAS_QUICK_GELU>(stream, g); break;
    case FC_GEMM_BIAS_GELU: launch<T, FC_GEMM_BIAS_GELU>(stream, g); break;
    case FC_GEMM_BIAS_RESIDUAL: break; /* the other library's own affair */
    }
}

extern "C" void fc_launch_finish(fc_cuda_stream stream, const fc_gemm *gemm)
{
    if (gemm->number == FC_NUMBER_BF16)
        launch_epilogue<bf16>(stream, gemm);
    else if (gemm->number == FC_NUMBER_F16)
        launch_epilogue<f16>(stream, gemm);
}
