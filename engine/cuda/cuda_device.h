/* A CUDA device: what it is, and whether a model can run on it. */
#ifndef FC_CUDA_DEVICE_H
#define FC_CUDA_DEVICE_H

#include "engine/backend.h"

typedef struct {
    int index;              /* as the runtime counts them */
    int is_only;            /* nonzero: there is no other one */
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

/* Makes it the device of the calling thread, which may be any one of the host's. Where there is
 * only one, it is that already, and the runtime is not called. Errors: UNAVAILABLE, DEVICE. */
flatclip_status fc_cuda_device_use(const fc_cuda_device *device, flatclip_error *err);

/* OK if code, a cudaError_t, is success; else an error that names the call. */
flatclip_status fc_cuda_check(int code, const char *call, flatclip_error *err);

#endif
