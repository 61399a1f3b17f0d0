/* Loading a model: configuration, device, one allocation, one pass over the tensors. */
#include "engine/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cpu_count.h"
#include "engine/cuda/cuda_weights.h"
#include "engine/options.h"
#include "engine/tower_weights.h"

enum { MAX_LOADING_THREADS = 8 }; /* more wait for memory, not for each other */

const char *fc_precision_name(flatclip_precision precision)
{
    switch (precision) {
    case FLATCLIP_PRECISION_AUTO: return "auto";
    case FLATCLIP_PRECISION_F32: return "f32";
    case FLATCLIP_PRECISION_BF16: return "bf16";
    case FLATCLIP_PRECISION_F16: return "f16";
    case FLATCLIP_PRECISION_INT8: return "int8";
    }
    return "unknown";
}

flatclip_status fc_model_options_read(const flatclip_model_options *options,
                                      flatclip_model_options *full, flatclip_error *err)
{
    *full = (flatclip_model_options)FLATCLIP_MODEL_OPTIONS_INIT;
    FC_TRY(fc_options_read("flatclip_model_options", options, full, sizeof *full, err));
    FC_TRY(fc_check_range("device", full->device, FLATCLIP_DEVICE_AUTO, FLATCLIP_DEVICE_CUDA, err));
    FC_TRY(fc_check_range("device_index", full->device_index, 0, 1023, err));
    FC_TRY(fc_check_range("precision", full->precision, FLATCLIP_PRECISION_AUTO,
                          FLATCLIP_PRECISION_INT8, err));
    FC_TRY(fc_check_range("threads", full->threads, 0, FLATCLIP_MAX_THREADS, err));
    if (full->threads == 0) {
        const int cpus = fc_cpu_count();
        full->threads = cpus < MAX_LOADING_THREADS ? cpus : MAX_LOADING_THREADS;
    }
    return FLATCLIP_OK;
}

/* -- Choosing a device ------------------------------------------------------------------------ */

static flatclip_status choose_cpu(const flatclip_model_options *options, flatclip_model *model,
                                  flatclip_error *err)
{
    if (options->precision != FLATCLIP_PRECISION_AUTO &&
        options->precision != FLATCLIP_PRECISION_F32)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE,
                       "precision %s is not available on the CPU in this version; use f32%s%s",
                       fc_precision_name(options->precision), model->fallback[0] ? ". " : "",
                       model->fallback);
    model->compute = &fc_cpu_compute;
    model->device = FLATCLIP_DEVICE_CPU;
    model->precision = FLATCLIP_PRECISION_F32;
    snprintf(model->backend, sizeof model->backend, "cpu/%s", fc_isa_name(model->isa));
    return FLATCLIP_OK;
}

#ifdef FC_WITH_CUDA
static flatclip_status choose_cuda(const flatclip_model_options *options, flatclip_model *model,
                                   flatclip_error *err)
{
    flatclip_precision precision = options->precision;
    if (precision == FLATCLIP_PRECISION_AUTO)
        precision = FLATCLIP_PRECISION_F16;
    if (precision == FLATCLIP_PRECISION_INT8)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "precision int8 is not available on device "
                       "cuda in this version; use f16, bf16 or f32");
    FC_TRY(fc_cuda_device_open(options->device_index, &model->cuda, err));
    FC_TRY(fc_cuda_device_check(&model->cuda, precision, &model->tower, err));
    FC_TRY(fc_cublaslt_wanted(fc_cuda_number(precision), &model->wants_cublaslt, err));
    model->compute = &fc_cuda_compute;
    model->device = FLATCLIP_DEVICE_CUDA;
    model->precision = precision;
    snprintf(model->backend, sizeof model->backend, "cuda:%d/sm_%d %.30s", model->cuda.index,
             model->cuda.capability, model->cuda.name);
    return FLATCLIP_OK;
}
#else
static flatclip_status choose_cuda(const flatclip_model_options *options, flatclip_model *model,
                                   flatclip_error *err)
{
    (void)options;
    (void)model;
    return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "device cuda is not in this build; use cpu or "
                   "auto, or build with nvcc installed (make CUDA=1)");
}
#endif

/* For a model whose shapes are set. AUTO takes the CPU where the GPU cannot run this model, and
 * notes why. */
static flatclip_status choose_device(const flatclip_model_options *options, flatclip_model *model,
                                     flatclip_error *err)
{
    FC_TRY(fc_isa_choose(&model->isa, err));
    model->kernels = fc_cpu_kernels_for(model->isa);
    if (options->device == FLATCLIP_DEVICE_CUDA)
        return choose_cuda(options, model, err);
#ifdef FC_WITH_CUDA
    flatclip_error why;
    if (options->device == FLATCLIP_DEVICE_AUTO) {
        if (choose_cuda(options, model, &why) == FLATCLIP_OK)
            return FLATCLIP_OK;
        snprintf(model->fallback, sizeof model->fallback, "%.190s", why.message);
    }
#endif
    return choose_cpu(options, model, err);
}

/* -- Loading ---------------------------------------------------------------------------------- */

/* What the file says, checked; and how many bytes its weights will take. */
static flatclip_status read_plan(const fc_safetensors *file, const flatclip_model_options *options,
                                 flatclip_model *model, fc_arenas *arenas, flatclip_error *err)
{
    FC_TRY(fc_clip_config_read(file, &model->config, err));
    FC_TRY(fc_clip_check_tensors(file, &model->config, err));
    if (model->config.vision.layers > FC_MAX_LAYERS)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%s: the image tower has %d layers, expected 1..%d",
                       fc_safetensors_path(file), model->config.vision.layers, FC_MAX_LAYERS);
    fc_tower_set_shapes(&model->tower, &model->config);
    FC_TRY(choose_device(options, model, err));
    model->compute->weights_layout(model, arenas);
    model->weight_bytes = arenas->host.used + arenas->device.used;
    return FLATCLIP_OK;
}

flatclip_status fc_model_plan(const char *path, const flatclip_model_options *options,
                              flatclip_model *model, fc_arenas *arenas, fc_safetensors **file,
                              flatclip_error *err)
{
    *file = NULL;
    FC_TRY(fc_safetensors_open(path, file, err));
    const flatclip_status status = read_plan(*file, options, model, arenas, err);
    if (status != FLATCLIP_OK) {
        fc_safetensors_close(*file);
        *file = NULL;
    }
    return status;
}

static flatclip_status build_model(const char *path, const flatclip_model_options *options,
                                   flatclip_model *model, flatclip_error *err)
{
    fc_safetensors *file;
    fc_arenas measured = { .host = { .base = NULL } };
    FC_TRY(fc_model_plan(path, options, model, &measured, &file, err));
    const flatclip_status status = model->compute->weights_load(model, file, options->threads, err);
    fc_safetensors_close(file);
    return status;
}

FLATCLIP_API flatclip_status flatclip_model_load(const char *path,
                                                 const flatclip_model_options *options,
                                                 flatclip_model **model, flatclip_error *err)
{
    fc_succeed(err);
    if (!model)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "flatclip_model_load: model is NULL");
    *model = NULL;
    if (!path)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "flatclip_model_load: path is NULL");
    flatclip_model_options full;
    FC_TRY(fc_model_options_read(options, &full, err));

    flatclip_model *m = calloc(1, sizeof *m);
    if (!m)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a model");
    const flatclip_status status = build_model(path, &full, m, err);
    if (status != FLATCLIP_OK) {
        flatclip_model_free(m);
        return status;
    }
    *model = m;
    return FLATCLIP_OK;
}

FLATCLIP_API void flatclip_model_free(flatclip_model *model)
{
    if (!model)
        return;
    if (model->compute)
        model->compute->weights_free(model);
    free(model);
}

void fc_model_describe(const flatclip_model *model, flatclip_model_info *info)
{
    const fc_clip_config *c = &model->config;
    flatclip_model_info full = {
        .struct_size = sizeof full, .image_size = c->image_size, .patch_size = c->patch_size,
        .tokens = fc_clip_tokens(c), .width = c->vision.width, .layers = c->vision.layers,
        .heads = c->vision.heads, .embed_dim = c->embed_dim, .activation = c->activation,
        .recipe = c->recipe, .device = model->device, .precision = model->precision,
    };
    memcpy(full.mean, c->mean, sizeof full.mean);
    memcpy(full.std, c->std, sizeof full.std);
    memcpy(full.backend, model->backend, sizeof full.backend);
    memcpy(full.fallback, model->fallback, sizeof full.fallback);
    fc_struct_write(&full, sizeof full, info);
}

FLATCLIP_API void flatclip_model_describe(const flatclip_model *model, flatclip_model_info *info)
{
    fc_model_describe(model, info);
}

FLATCLIP_API int flatclip_model_embed_dim(const flatclip_model *model)
{
    return model->config.embed_dim;
}

FLATCLIP_API int flatclip_model_image_size(const flatclip_model *model)
{
    return model->config.image_size;
}

FLATCLIP_API void flatclip_model_memory(const flatclip_model *model, flatclip_memory *memory)
{
    const size_t weights = model->weight_bytes;
    const flatclip_memory full = { sizeof full, weights, 0, 0, weights,
                                   model->device == FLATCLIP_DEVICE_CUDA ? weights : 0 };
    fc_struct_write(&full, sizeof full, memory);
}
