/* A CUDA device: what it is, and whether a model can run on it. */
#ifndef FC_CUDA_DEVICE_H
#define FC_CUDA_DEVICE_H

#include "engine/backend.h"

typedef struct {
    int index;              /* as the runtime counts them */
    int capability;         /* compute capability, 10 * major + minor */
    int multiprocessors;
    char name[64];
} fc_cuda_device;

/* Describes device index. Takes nothing. Errors: UNAVAILABLE (no driver, no such device, too old a
 * one). */
flatclip_status fc_cuda_device_open(int index, fc_cuda_device *device, flatclip_error *err);

/* Whether there are kernels for this tower on the device. Errors: UNAVAILABLE (says what is
 * lacking). */
flatclip_status fc_cuda_device_check(const fc_cuda_device *device, flatclip_precision precision,
                                     const fc_tower *tower, flatclip_error *err);

/* OK if code, a cudaError_t, is success; else an error that names the call. */
flatclip_status fc_cuda_check(int code, const char *call, flatclip_error *err);

#endif
