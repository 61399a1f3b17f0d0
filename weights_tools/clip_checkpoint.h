/* A public checkpoint seen as a CLIP model: our names and shapes over someone else's tensors. */
#ifndef FC_CLIP_CHECKPOINT_H
#define FC_CLIP_CHECKPOINT_H

#include "weights_tools/tensor_names.h"
#include "weights_tools/weight_source.h"

typedef struct {
    const fc_weight_source *source; /* the caller's */
    fc_layout layout;
    char prefix[65];                /* before every name */
    unsigned char *used;            /* [source->count]: nonzero for those that make up the model */
    int grid;                       /* of its position embeddings, once inferred: 7 for 7 x 7 */
} fc_clip_checkpoint;

/* Tells the layout from the names of tensors. On success the caller ends it with
 * fc_clip_checkpoint_close; source must live until then.
 * Errors: FORMAT (names a model that cannot be run by its kind), MEMORY. */
flatclip_status fc_clip_checkpoint_open(const fc_weight_source *source,
                                        fc_clip_checkpoint *checkpoint, flatclip_error *err);
void fc_clip_checkpoint_close(fc_clip_checkpoint *checkpoint);

/* Infers from shapes all dimensions of config, and nothing else of it. The caller may then ask for
 * another image_size, which means resampled position embeddings. Errors: FORMAT. */
flatclip_status fc_clip_checkpoint_infer(fc_clip_checkpoint *checkpoint,
                                         fc_clip_config *config, flatclip_error *err);

/* Checks that the checkpoint has every tensor of config, in the right shape and stored as floats,
 * and no other tensor but those that may be left out. stored [fc_clip_tensor_count(config)]
 * receives the smallest type that holds each of our tensors without loss (float64 counts as F32);
 * ignored [capacity] what is left out, as one line.
 * Errors: FORMAT (names the tensor). */
flatclip_status fc_clip_checkpoint_check(fc_clip_checkpoint *checkpoint,
                                         const fc_clip_config *config, fc_dtype *stored,
                                         char *ignored, size_t capacity, flatclip_error *err);

/* The tensors that one of ours is made of: fills part [3] and *transposed, returns how many there
 * are; 0 if one is missing, whose name is then in missing [160]. */
int fc_clip_checkpoint_parts(const fc_clip_checkpoint *checkpoint, const char *our_name,
                             const fc_tensor *part[3], int *transposed, char missing[160]);

#endif
