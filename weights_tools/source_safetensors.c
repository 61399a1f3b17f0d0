/* Weights in one .safetensors file. */
#include "weights_tools/weight_source.h"

static const fc_tensor *at(const fc_weight_source *source, size_t index)
{
    return fc_safetensors_at(source->state, index);
}

static flatclip_status read_floats(const fc_weight_source *source, const fc_tensor *tensor,
                                   uint64_t first, uint64_t count, float *out, flatclip_error *err)
{
    return fc_safetensors_read_f32(source->state, tensor, first, count, out, err);
}

static flatclip_status read_bytes(const fc_weight_source *source, const fc_tensor *tensor,
                                  uint64_t first, uint64_t count, void *out, flatclip_error *err)
{
    return fc_safetensors_read_bytes(source->state, tensor, first, count, out, err);
}

static int own_config(const fc_weight_source *source, fc_clip_config *config)
{
    return fc_clip_config_read(source->state, config, NULL) == FLATCLIP_OK;
}

static void close_file(fc_weight_source *source)
{
    fc_safetensors_close(source->state);
}

flatclip_status fc_source_safetensors_open(fc_weight_source *source, flatclip_error *err)
{
    fc_safetensors *file;
    FC_TRY(fc_safetensors_open(source->path, &file, err));
    source->state = file;
    source->count = fc_safetensors_count(file);
    source->at = at;
    source->read = read_floats;
    source->read_bytes = read_bytes;
    source->own_config = own_config;
    source->close = close_file;
    return FLATCLIP_OK;
}
