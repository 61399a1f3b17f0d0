/* Matrix products with their epilogues: every linear layer of the towers. */
#include "kernels/device/epilogues.cuh"
#include "kernels/device/product.cuh"
#include "kernels/device/sources.cuh"
#include "kernels/launch.h"

typedef tile_shape<64, 32, 4, 1> tile_64x32;
typedef tile_shape<64, 64, 2, 2> tile_64x64;
typedef tile_shape<128, 64, 4, 2> tile_128x64;
typedef tile_shape<128, 128, 4, 2> tile_128x128;

template <class T, class Epilogue>
static void launch_tile(fc_cuda_stream stream, const fc_gemm *g, Epilogue epilogue)
{
    const row_source<T> source = { (const T *)g->x, g->x_stride, g->rows };
    const T *weight = (const T *)g->weight;
    switch (g->tile) {
    case FC_TILE_64x32:
        launch_product<tile_64x32>(stream, source, weight, epilogue, g->rows, g->columns, g->k);
        break;
    case FC_TILE_64x64:
        launch_product<tile_64x64>(stream, source, weight, epilogue, g->rows, g->columns, g->k);
        break;
    case FC_TILE_128x64:
        launch_product<tile_128x64>(stream, source, weight, epilogue, g->rows, g->columns, g->k);
        break;
    default:
        launch_product<tile_128x128>(stream, source, weight, epilogue, g->rows, g->columns, g->k);
    }
}

/* float32 has one tile. */
template <class Epilogue>
static void launch_f32(fc_cuda_stream stream, const fc_gemm *g, Epilogue epilogue)
{
    const row_source<float> source = { (const float *)g->x, g->x_stride, g->rows };
    launch_product_f32(stream, source, (const float *)g->weight, epilogue, g->rows, g->columns,
                       g->k);
}

template <int EPILOGUE> static void launch_number(fc_cuda_stream stream, const fc_gemm *g)
{
    switch (g->number) {
    case FC_NUMBER_BF16:
        launch_tile<bf16>(stream, g, plain_epilogue<bf16, EPILOGUE>{ (bf16 *)g->out, g->out_stride,
                                                                     g->bias });
        break;
    case FC_NUMBER_F16:
        launch_tile<f16>(stream, g, plain_epilogue<f16, EPILOGUE>{ (f16 *)g->out, g->out_stride,
                                                                   g->bias });
        break;
    case FC_NUMBER_F32:
        launch_f32(stream, g, plain_epilogue<float, EPILOGUE>{ (float *)g->out, g->out_stride,
                                                               g->bias });
        break;
    }
}

static void launch_residual(fc_cuda_stream stream, const fc_gemm *g)
{
    const residual_epilogue epilogue = { (float *)g->out, g->out_stride, g->bias };
    switch (g->number) {
    case FC_NUMBER_BF16: launch_tile<bf16>(stream, g, epilogue); break;
    case FC_NUMBER_F16: launch_tile<f16>(stream, g, epilogue); break;
    case FC_NUMBER_F32: launch_f32(stream, g, epilogue); break;
    }
}

extern "C" void fc_launch_gemm(fc_cuda_stream stream, const fc_gemm *gemm)
{
    switch (gemm->epilogue) {
    case FC_GEMM_BIAS: launch_number<FC_GEMM_BIAS>(stream, gemm); break;
    case FC_GEMM_BIAS_QUICK_GELU: launch_number<FC_GEMM_BIAS_QUICK_GELU>(stream, gemm); break;
    case FC_GEMM_BIAS_GELU: launch_number<FC_GEMM_BIAS_GELU>(stream, gemm); break;
    case FC_GEMM_BIAS_RESIDUAL: launch_residual(stream, gemm); break;
    }
}
