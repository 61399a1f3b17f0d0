/* Patch embedding as an implicit matrix product: patches are gathered from pixels while they are
 * multiplied, and never lie in memory. */
#include "kernels/device/epilogues.cuh"
#include "kernels/device/product.cuh"
#include "kernels/device/sources.cuh"
#include "kernels/launch.h"

typedef tile_shape<64, 64, 2, 2> tile_64x64;

template <class T, class Source>
static void launch_patches(fc_cuda_stream stream, const fc_cuda_patch_embed *e, Source source,
                           patch_epilogue epilogue)
{
    launch_product<tile_64x64>(stream, source, (const T *)e->weight, epilogue, source.at.rows,
                               e->width, e->k);
}

template <class Source>
static void launch_patches_f32(fc_cuda_stream stream, const fc_cuda_patch_embed *e, Source source,
                               patch_epilogue epilogue)
{
    launch_product_f32(stream, source, (const float *)e->weight, epilogue, source.at.rows,
                       e->width, e->k);
}

template <template <class> class Source, class Pixel>
static void launch_number(fc_cuda_stream stream, const fc_cuda_patch_embed *e, patch_grid at,
                          patch_epilogue epilogue)
{
    const Pixel *pixels = (const Pixel *)e->pixels;
    switch (e->number) {
    case FC_NUMBER_BF16:
        launch_patches<bf16>(stream, e, Source<bf16>{ pixels, at }, epilogue);
        break;
    case FC_NUMBER_F16:
        launch_patches<f16>(stream, e, Source<f16>{ pixels, at }, epilogue);
        break;
    case FC_NUMBER_F32:
        launch_patches_f32(stream, e, Source<float>{ pixels, at }, epilogue);
        break;
    }
}

extern "C" void fc_launch_patch_embed(fc_cuda_stream stream, const fc_cuda_patch_embed *embed)
{
    const int grid = embed->image_size / embed->patch_size;
    const patch_grid at = { embed->image_size, embed->patch_size, grid,
                            embed->batch * grid * grid };
    const float scale = embed->floats ? 1.0f : 1.0f / 256;
    const patch_epilogue epilogue = { embed->x, embed->x_stride, embed->bias, scale, grid * grid };
    if (embed->floats)
        launch_number<float_source, float>(stream, embed, at, epilogue);
    else
        launch_number<byte_source, uint8_t>(stream, embed, at, epilogue);
}
