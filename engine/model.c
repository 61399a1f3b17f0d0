/* Loading a model: configuration, backend, one allocation, one pass over the tensors. */
#include "engine/model.h"

#include <stdlib.h>

#include "engine/base/cpu_count.h"
#include "engine/cpu/cpu_weights.h"
#include "engine/options.h"

enum { MAX_LOADING_THREADS = 8 }; /* more wait for memory, not for each other */

static const char *precision_name(flatclip_precision precision)
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

static const char *backend_name(fc_isa isa)
{
    switch (isa) {
    case FC_ISA_PORTABLE: return "cpu/portable";
    case FC_ISA_AVX2: return "cpu/avx2";
    case FC_ISA_AVX512: return "cpu/avx512";
    }
    return "cpu";
}

/* The CPU backend is the only one of this version; what it lacks is refused by name. */
static flatclip_status choose_backend(const flatclip_model_options *options, flatclip_model *model,
                                      flatclip_error *err)
{
    if (options->device == FLATCLIP_DEVICE_CUDA)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE,
                       "device cuda is not in this build; use cpu or auto");
    if (options->precision != FLATCLIP_PRECISION_AUTO &&
        options->precision != FLATCLIP_PRECISION_F32)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE,
                       "precision %s is not available on the CPU in this version; use f32",
                       precision_name(options->precision));
    FC_TRY(fc_isa_choose(&model->isa, err));
    model->kernels = fc_cpu_kernels_for(model->isa);
    model->backend = backend_name(model->isa);
    return FLATCLIP_OK;
}

static void set_dimensions(fc_tower *tower, const fc_clip_config *config)
{
    tower->image_size = config->image_size;
    tower->patch_size = config->patch_size;
    tower->seq = fc_clip_tokens(config);
    tower->width = config->vision.width;
    tower->layers = config->vision.layers;
    tower->heads = config->vision.heads;
    tower->embed = config->embed_dim;
    tower->activation = config->activation == FLATCLIP_ACTIVATION_GELU ? FC_BIAS_GELU
                                                                      : FC_BIAS_QUICK_GELU;
    tower->scale = 0.125f; /* 1 / sqrt(FC_HEAD_DIM), exactly */
    for (int c = 0; c < 3; c++)
        for (int byte = 0; byte < 256; byte++) /* in torchvision's order of float32 operations */
            tower->pixel[c][byte] = ((float)byte / 255.0f - config->mean[c]) / config->std[c];
}

/* What the file says, checked; and how many bytes its weights will take. */
static flatclip_status read_plan(const fc_safetensors *file, flatclip_model *model, fc_arena *arena,
                                 flatclip_error *err)
{
    FC_TRY(fc_clip_config_read(file, &model->config, err));
    FC_TRY(fc_clip_check_tensors(file, &model->config, err));
    if (model->config.vision.layers > FC_MAX_LAYERS)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%s: the image tower has %d layers, expected 1..%d",
                       fc_safetensors_path(file), model->config.vision.layers, FC_MAX_LAYERS);
    set_dimensions(&model->tower, &model->config);
    fc_cpu_weights_layout(&model->tower, arena, model->kernels);
    model->weight_bytes = arena->used;
    return FLATCLIP_OK;
}

flatclip_status fc_model_plan(const char *path, const flatclip_model_options *options,
                              flatclip_model *model, fc_arena *arena, fc_safetensors **file,
                              flatclip_error *err)
{
    *file = NULL;
    FC_TRY(choose_backend(options, model, err));
    FC_TRY(fc_safetensors_open(path, file, err));
    const flatclip_status status = read_plan(*file, model, arena, err);
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
    fc_arena measured = { .base = NULL };
    FC_TRY(fc_model_plan(path, options, model, &measured, &file, err));

    flatclip_status status = FLATCLIP_OK;
    model->block = fc_block_alloc(model->weight_bytes);
    if (model->block) {
        fc_arena placed = { .base = model->block };
        fc_cpu_weights_layout(&model->tower, &placed, model->kernels);
        status = fc_cpu_weights_fill(&model->tower, model->kernels, file, options->threads, err);
    } else {
        status = fc_fail(err, FLATCLIP_ERR_MEMORY, "%s: no memory for %zu bytes of weights", path,
                         model->weight_bytes);
    }
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
    fc_block_free(model->block);
    free(model);
}

void fc_model_describe(const flatclip_model *model, flatclip_model_info *info)
{
    const fc_clip_config *c = &model->config;
    const flatclip_model_info full = {
        sizeof full, c->image_size, c->patch_size, fc_clip_tokens(c), c->vision.width,
        c->vision.layers, c->vision.heads, c->embed_dim, c->activation, c->recipe,
        { c->mean[0], c->mean[1], c->mean[2] }, { c->std[0], c->std[1], c->std[2] },
        FLATCLIP_DEVICE_CPU, FLATCLIP_PRECISION_F32, model->backend,
    };
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
    const flatclip_memory full = { sizeof full, model->weight_bytes, 0, 0, model->weight_bytes, 0 };
    fc_struct_write(&full, sizeof full, memory);
}
