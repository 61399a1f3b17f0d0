/* From the tensors of a model file to what the CUDA kernels read: matrices [out, in] in the type
 * that the model computes in, everything else float32. */
#ifndef FC_CUDA_WEIGHTS_H
#define FC_CUDA_WEIGHTS_H

#include "engine/model.h"
#include "kernels/launch.h"

fc_number fc_cuda_number(flatclip_precision precision);
size_t fc_cuda_number_bytes(fc_number number);

/* The depth of the patch product: 3 patch^2, rounded up to what the kernels step by. */
int fc_cuda_patch_depth(const fc_tower *tower);

/* Measures or places every weight of the image tower, whose shapes are set. */
void fc_cuda_weights_layout(flatclip_model *model, fc_arena *arena);

/* Reads the weights into a placed tower, tensor by tensor, through two buffers as large as the
 * largest. Errors: IO, MEMORY, DEVICE; FORMAT for values that the precision cannot hold. */
flatclip_status fc_cuda_weights_fill(flatclip_model *model, const fc_safetensors *file,
                                     flatclip_error *err);

#endif
