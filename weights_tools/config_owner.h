/* Whether a configuration file that lies beside a checkpoint belongs to it. */
#ifndef FC_CONFIG_OWNER_H
#define FC_CONFIG_OWNER_H

#include "engine/base/error.h"
#include "weights_tools/tensor_names.h"

/* Fills *belongs: whether the configuration of layout's library, in the folder of the checkpoint
 * file at path, speaks of this file: it has a name that the library gives (open_clip..., model...,
 * pytorch_model...), or no other checkpoint is in the folder. Where several lie together, as in a
 * folder of downloads, the configuration may be another's, with the same shapes and the other
 * activation. Models that we wrote do not count: they carry their own.
 * Errors: MEMORY. */
flatclip_status fc_config_belongs(const char *path, fc_layout layout, int *belongs,
                                  flatclip_error *err);

#endif
