/* The named tensors in what torch.save or TorchScript pickled. */
#ifndef FC_TORCH_STATE_H
#define FC_TORCH_STATE_H

#include "weights_tools/pickle.h"

typedef struct {
    const char *name;                   /* "visual.proj"; of a TorchScript object, joined by dots */
    const fc_pickle_value *value;       /* of kind FC_PICKLE_TENSOR, the pickle's */
} fc_torch_tensor;

typedef struct {
    fc_torch_tensor *tensor;            /* [count], in the order of the pickle */
    size_t count;
    char left_out[160];                 /* "optimizer, epoch, name"; "" if nothing */
    char *names;                        /* the memory of the names */
} fc_torch_state;

/* Finds the state dict under root: root itself if it holds tensors by name; what a training script
 * keeps under state_dict, model_state_dict, model or the like, whose brothers are then listed in
 * left_out; or the parameters and buffers of a TorchScript object, nested to any depth up to 64.
 * Every tensor is checked to lie inside its storage; that no two have one name is left to the
 * caller. name stands in messages. On success the caller ends *state with fc_torch_state_free; the
 * pickle must live until then.
 * Errors: FORMAT (lists the keys where none of them is a state dict, names a tensor outside its
 * storage), MEMORY. */
flatclip_status fc_torch_state_read(const char *name, const fc_pickle_value *root,
                                    fc_torch_state *state, flatclip_error *err);
void fc_torch_state_free(fc_torch_state *state);

#endif
