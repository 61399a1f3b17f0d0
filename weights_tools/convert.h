/* Public checkpoints in, our model file out. */
#ifndef FC_CONVERT_H
#define FC_CONVERT_H

#include "engine/base/clip_config.h"

typedef struct {
    fc_dtype dtype;
    int keep_dtype;                 /* nonzero: store each tensor in the type that it came in */
    flatclip_activation activation; /* 0: decide from the configuration beside the source */
} fc_convert_options;

/* What was decided and why, one line each, for the command line to print. */
typedef struct {
    char layout[160];
    char activation[160];
    char recipe[160];
    char ignored[160];              /* tensors left out, such as position ids; "" if none */
    fc_clip_config config;
} fc_convert_report;

/* Converts source (a .safetensors file, or a folder with model.safetensors or
 * open_clip_model.safetensors and its config) to a model file at path, atomically, tensor by
 * tensor. The layout is told by content. report may be NULL.
 * Errors: ARGUMENT, IO, FORMAT, MEMORY; each says what to do. */
flatclip_status fc_convert(const char *source, const fc_convert_options *options, const char *path,
                           fc_convert_report *report, flatclip_error *err);

#endif
