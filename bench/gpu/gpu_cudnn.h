/* cuDNN's patch convolution and attention, as the measure of ours: loaded when asked for. */
#ifndef GPU_CUDNN_H
#define GPU_CUDNN_H

#include "bench/gpu/gpu_parts.h"

/* Which one there is: "9.19.0", or why there is none. */
const char *gpu_cudnn_words(void);

/* Operations of ViT-B/32 on batch images in fp16, on memory of zeros. NULL, and said, without the
 * library or if it refuses. Attention's q, k and v lie in one [batch, 50, 3 * 768], as ours do; the
 * convolution's pixels, 16-bit and normalised already, in [batch, 224, 224, 3]. */
typedef struct gpu_cudnn_operation gpu_cudnn_operation;
gpu_cudnn_operation *gpu_cudnn_attention(gpu_run *run, const char *what, int batch);
gpu_cudnn_operation *gpu_cudnn_convolution(gpu_run *run, const char *what, int batch);
void gpu_cudnn_run(void *operation); /* a gpu_work */
void gpu_cudnn_close(gpu_cudnn_operation *operation);

#endif
