/* What the files beside a checkpoint say about it: config.json and preprocessor_config.json of
 * Hugging Face, open_clip_config.json of open_clip. */
#ifndef FC_SOURCE_CONFIG_H
#define FC_SOURCE_CONFIG_H

#include "weights_tools/tensor_names.h"
#include "engine/base/clip_config.h"

typedef struct {
    char file[32];                 /* the configuration's name; "" where there is none */
    fc_clip_config said;           /* 0 for what it does not say; activation 0 likewise */
    char activation_reason[120];   /* "config.json has hidden_act quick_gelu" */
    char recipe_reason[120];
} fc_source_config;

/* Reads what lies in the folder of the checkpoint file at path and belongs to it. recipe, mean and
 * std of said are always filled; activation_reason also where a configuration was passed over,
 * because it may be another checkpoint's. Refuses, by name, models and ways of resizing that we do
 * not have.
 * Errors: IO, FORMAT (names the file and the key), MEMORY. */
flatclip_status fc_source_config_read(const char *path, fc_layout layout, fc_source_config *config,
                                      flatclip_error *err);

#endif
