/* From the tensors of a model file to what the CPU kernels stream. */
#ifndef FC_CPU_WEIGHTS_H
#define FC_CPU_WEIGHTS_H

#include "engine/backend.h"

/* Measures or places every weight of the image tower, whose dimensions are set. */
void fc_cpu_weights_layout(fc_tower *tower, fc_arena *arena, const fc_cpu_kernels *kernels);

/* Reads the weights into a placed tower, tensor by tensor, on threads threads that end with it;
 * each needs one panel of scratch. Errors: IO, MEMORY. */
flatclip_status fc_cpu_weights_fill(fc_tower *tower, const fc_cpu_kernels *kernels,
                                    const fc_safetensors *file, int threads, flatclip_error *err);

#endif
