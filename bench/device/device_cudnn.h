/* cuDNN's patch convolution and attention, as the measure of ours: loaded when asked for, from the
 * file that FLATCLIP_CUDNN names, or what the loader finds. */
#ifndef DEVICE_CUDNN_H
#define DEVICE_CUDNN_H

#include "bench/device/device_clock.h"

/* Which one there is: "9.19.0", or why there is none. */
const char *device_cudnn_words(void);

/* What a vision transformer's operations need to know. width is 64 a head. */
typedef struct {
    int tokens, width, image_size, patch_size;
} device_cudnn_shape;

/* Operations on batch images in fp16, on memory of zeros; NULL, with the error, without the library
 * or if it refuses. Attention's q, k and v lie in one [batch, tokens, 3 width], as ours do; the
 * convolution's pixels, 16-bit and normalised already, in [batch, S, S, 3]. */
typedef struct device_cudnn device_cudnn;
typedef device_cudnn *device_cudnn_opener(const device_cudnn_shape *shape, fc_cuda_stream stream,
                                          int batch, flatclip_error *err);
device_cudnn_opener device_cudnn_attention, device_cudnn_convolution;
void device_cudnn_run(fc_cuda_stream stream, void *operation); /* a device_work, on its stream */
void device_cudnn_close(device_cudnn *operation);              /* NULL is allowed */

#endif
