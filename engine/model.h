/* A model: what a file describes, in one allocation, as its backend wants it. Immutable. */
#ifndef FC_MODEL_H
#define FC_MODEL_H

#include "engine/backend.h"

struct flatclip_model {
    fc_clip_config config;
    fc_isa isa;
    const fc_cpu_kernels *kernels;
    const char *backend;    /* "cpu/avx512"; static */
    fc_tower tower;
    void *block;            /* all weights */
    size_t weight_bytes;
};

/* Reads and checks the header of the model file at path, chooses the backend, and measures the
 * weights with arena (base NULL; its watcher sees every tensor). *model then has everything but
 * weights. The open file is returned for reading them.
 * Errors: ARGUMENT, IO, FORMAT, MEMORY, UNAVAILABLE. */
flatclip_status fc_model_plan(const char *path, const flatclip_model_options *options,
                              flatclip_model *model, fc_arena *arena, fc_safetensors **file,
                              flatclip_error *err);

/* Copies what the caller's struct_size covers of source to options, and checks it. options may be
 * NULL. Errors: ARGUMENT. */
flatclip_status fc_model_options_read(const flatclip_model_options *options,
                                      flatclip_model_options *full, flatclip_error *err);

void fc_model_describe(const flatclip_model *model, flatclip_model_info *info);

#endif
