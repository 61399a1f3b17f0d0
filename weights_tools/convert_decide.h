/* Deciding what a checkpoint is: its dimensions, activation and recipe, and from what that follows.
 *
 * Dimensions come from the shapes of tensors, which cannot be wrong; configuration files only add
 * what shapes do not tell, and must agree with them. The activation is never guessed: the wrong
 * one gives plausible but worse embeddings, silently. */
#ifndef FC_CONVERT_DECIDE_H
#define FC_CONVERT_DECIDE_H

#include "weights_tools/clip_checkpoint.h"
#include "weights_tools/convert.h"

/* Fills report but for vocabulary and ignored, and its config but for weights_sha256. Hashes the
 * source's files, unless the source is a model file of ours that names its own.
 * Errors: FORMAT (also where nothing tells the activation: says how to choose), IO, MEMORY. */
flatclip_status fc_convert_decide(fc_clip_checkpoint *checkpoint, const fc_convert_options *options,
                                  fc_convert_report *report, flatclip_error *err);

#endif
