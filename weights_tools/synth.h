/* Seeded synthetic weights: the same bits in any language, for tests and for a first try. */
#ifndef FC_SYNTH_H
#define FC_SYNTH_H

#include "engine/base/clip_config.h"

/* Fills *config for a named shape: vitb32, tiny, tiny-b16, tiny-l14-336, micro.
 * Errors: ARGUMENT (lists the names). */
flatclip_status fc_synth_config(const char *name, fc_clip_config *config, flatclip_error *err);

/* Elements first to first + count - 1 of a tensor; fp16 holds each of them exactly. */
void fc_synth_values(const fc_tensor_spec *spec, uint64_t seed, uint64_t first, size_t count,
                     float *values);

/* Writes a model file of that shape to path, atomically; streams, so that its memory does not
 * depend on the model. dtype is FC_F32, FC_F16 or FC_BF16.
 * Errors: ARGUMENT, IO. */
flatclip_status fc_synth_write(const char *name, uint64_t seed, fc_dtype dtype, const char *path,
                               flatclip_error *err);

#endif
