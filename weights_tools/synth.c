/* Model files of synthetic weights. */
#include "weights_tools/synth.h"

#include <inttypes.h>
#include <stdio.h>

#include "weights_tools/model_writer.h"

enum { BLOCK_VALUES = 8 << 10, MAX_TENSORS = 512 };

static flatclip_status write_tensor(fc_model_writer *writer, const fc_tensor_spec *spec,
                                    uint64_t seed, flatclip_error *err)
{
    float values[BLOCK_VALUES];
    for (uint64_t first = 0; first < spec->count; first += BLOCK_VALUES) {
        const uint64_t left = spec->count - first;
        const size_t count = left < BLOCK_VALUES ? (size_t)left : BLOCK_VALUES;
        fc_synth_values(spec, seed, first, count, values);
        FC_TRY(fc_model_writer_append(writer, values, count, err));
    }
    return FLATCLIP_OK;
}

static flatclip_status write_tensors(fc_model_writer *writer, const fc_clip_config *config,
                                     uint64_t seed, flatclip_error *err)
{
    const int count = fc_clip_tensor_count(config);
    for (int i = 0; i < count; i++) {
        fc_tensor_spec spec;
        fc_clip_tensor_spec(config, i, &spec);
        FC_TRY(write_tensor(writer, &spec, seed, err));
    }
    return FLATCLIP_OK;
}

flatclip_status fc_synth_write(const char *name, uint64_t seed, fc_dtype dtype, const char *path,
                               flatclip_error *err)
{
    fc_clip_config config;
    fc_dtype dtypes[MAX_TENSORS];
    fc_model_writer *writer;
    FC_TRY(fc_synth_config(name, &config, err));
    snprintf(config.source, sizeof config.source, "synth %s seed %" PRIu64, name, seed);
    for (int i = 0; i < MAX_TENSORS; i++)
        dtypes[i] = dtype;
    fc_merges merges = { NULL, 0, "" };
    if (config.vocab_size == FC_CLIP_VOCABULARY)
        FC_TRY(fc_merges_builtin(&merges, err));
    flatclip_status status = fc_model_writer_open(path, &config, dtypes, &merges, &writer, err);
    if (status == FLATCLIP_OK) {
        status = write_tensors(writer, &config, seed, err);
        if (status == FLATCLIP_OK)
            status = fc_model_writer_commit(writer, NULL, err);
        else
            fc_model_writer_abandon(writer);
    }
    fc_merges_free(&merges);
    return status;
}
