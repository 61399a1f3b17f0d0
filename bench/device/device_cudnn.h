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

typedef enum {
    DEVICE_CUDNN_PATCHES,   /* from [batch, S, S, 3], 16-bit and normalised already */
    DEVICE_CUDNN_ATTENTION  /* q, k and v in one [batch, tokens, 3 width], as ours are */
} device_cudnn_operation;

/* Seconds of an operation on batch images in fp16, on memory of zeros, as device_time has it. NAN,
 * with the error, without the library or if it refuses. */
double device_cudnn_time(const device_clock *clock, device_cudnn_operation operation,
                         const device_cudnn_shape *shape, int batch, double seconds,
                         flatclip_error *err);

#endif
