/* What each configuration file of public checkpoints says. Failures stay in the document. */
#ifndef FC_CONFIG_READERS_H
#define FC_CONFIG_READERS_H

#include "weights_tools/config_document.h"
#include "weights_tools/source_config.h"

/* open_clip_config.json: the model and its preprocessing. */
void fc_config_take_open_clip(fc_document *doc, fc_source_config *config);

/* config.json of transformers: the model. */
void fc_config_take_hf(fc_document *doc, fc_source_config *config);

/* preprocessor_config.json of transformers; or its newer form, the object image_processor in
 * processor_config.json. */
void fc_config_take_hf_pixels(fc_document *doc, fc_source_config *config);

#endif
