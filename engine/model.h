/* A model: what a file describes, in one allocation, as its device wants it. Immutable. */
#ifndef FC_MODEL_H
#define FC_MODEL_H

#include "engine/compute.h"
#include "engine/cuda/cuda_cublaslt.h"
#include "engine/cuda/cuda_device.h"

struct flatclip_model {
    fc_clip_config config;
    const fc_compute *compute;
    flatclip_device device;
    flatclip_precision precision;
    char backend[64];       /* "cpu/avx512", "cuda:0/sm_90 NVIDIA H200" */
    char fallback[200];     /* why AUTO did not take the GPU that this build could use, or empty */
    fc_isa isa;             /* of the CPU, which makes the pixels in any case */
    const fc_cpu_kernels *kernels;
    fc_cuda_device cuda;    /* on a CUDA device */
    int wants_cublaslt;     /* likewise */
    fc_cublaslt *cublaslt;  /* of a loaded model that wants it, else NULL */
    fc_tower tower;
    void *block;            /* all weights; device memory on a CUDA device */
    size_t weight_bytes;
};

/* Reads and checks the header of the model file at path, chooses the device, and measures the
 * weights with arenas (bases NULL; the watcher sees every tensor). *model then has everything but
 * weights. The open file is returned for reading them.
 * Errors: ARGUMENT, IO, FORMAT, MEMORY, UNAVAILABLE. */
flatclip_status fc_model_plan(const char *path, const flatclip_model_options *options,
                              flatclip_model *model, fc_arenas *arenas, fc_safetensors **file,
                              flatclip_error *err);

/* Copies what the caller's struct_size covers of source to options, and checks it. options may be
 * NULL. Errors: ARGUMENT. */
flatclip_status fc_model_options_read(const flatclip_model_options *options,
                                      flatclip_model_options *full, flatclip_error *err);

/* "f16" */
const char *fc_precision_name(flatclip_precision precision);

void fc_model_describe(const flatclip_model *model, flatclip_model_info *info);

#endif
