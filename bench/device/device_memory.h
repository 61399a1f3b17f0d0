/* Device memory for what is measured. */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include <stddef.h>

#include "flatclip.h"
#include "kernels/launch.h"

/* Zeros on the device, or NULL with the error; cudaFree gives them back. */
char *device_zeros(fc_cuda_stream stream, size_t bytes, flatclip_error *err);

#endif
