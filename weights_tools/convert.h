/* Public checkpoints in, our model file out. */
#ifndef FC_CONVERT_H
#define FC_CONVERT_H

#include "engine/base/clip_config.h"

typedef struct {
    fc_dtype dtype;
    int keep_dtype;                 /* nonzero: store each tensor in the type that it came in */
    flatclip_activation activation; /* 0: decide from what belongs to the source */
    int resize_positions;           /* nonzero: resample them to the configuration's image size */
} fc_convert_options;

/* What was decided and why, one line each, for the command line to print. */
typedef struct {
    char layout[160];
    char activation[240];
    char recipe[160];
    char positions[160];            /* how position embeddings were resampled; "" if not */
    char vocabulary[200];           /* where its merges are from; "" if there are none */
    char ignored[330];              /* what was left out, such as position ids; "" if nothing */
    fc_clip_config config;
} fc_convert_report;

/* Converts source to a model file at path, atomically, tensor by tensor. source is a checkpoint of
 * OpenAI, open_clip or Hugging Face: a .safetensors file, a file of torch.save or TorchScript, an
 * index of several files, or a folder that holds one of these under its usual name. Kind and layout
 * are told by content. report may be NULL.
 * Errors: ARGUMENT, IO, FORMAT, MEMORY; each says what to do. */
flatclip_status fc_convert(const char *source, const fc_convert_options *options, const char *path,
                           fc_convert_report *report, flatclip_error *err);

#endif
