/* Where converted weights come from: a list of tensors, read piece by piece as float32.
 *
 * The converter sees only this. Each kind of checkpoint has a file source_KIND.c that opens it. */
#ifndef FC_WEIGHT_SOURCE_H
#define FC_WEIGHT_SOURCE_H

#include "engine/base/clip_config.h"

typedef struct fc_weight_source fc_weight_source;

struct fc_weight_source {
    char *path;                 /* of the file that holds the weights, or lists those that do */
    size_t count;
    size_t *by_name;            /* [count]: indices in the order of names */
    void *state;                /* of the kind that opened it */
    char left_out[160];         /* what lies beside the tensors: "optimizer, epoch"; or "" */
    /* What the file itself says on the activation, and how: a TorchScript archive holds code. */
    flatclip_activation activation; /* 0: nothing */
    char activation_reason[120];
    /* Tensor index, 0 <= index < count; offset and bytes of it mean nothing to the caller. */
    const fc_tensor *(*at)(const fc_weight_source *source, size_t index);
    /* Elements first to first + count - 1 of a tensor, in row-major order. */
    flatclip_status (*read)(const fc_weight_source *source, const fc_tensor *tensor,
                            uint64_t first, uint64_t count, float *out, flatclip_error *err);
    /* The same of a U8 tensor, as bytes. NULL where there are no such tensors. */
    flatclip_status (*read_bytes)(const fc_weight_source *source, const fc_tensor *tensor,
                                  uint64_t first, uint64_t count, void *out, flatclip_error *err);
    /* Checks at once the checksums of all that read reads, which does it tensor by tensor else. NULL
     * where there are none. */
    flatclip_status (*check)(const fc_weight_source *source, flatclip_error *err);
    /* Fills *config if the source is a model file of ours, and returns whether it is one. May be
     * NULL. */
    int (*own_config)(const fc_weight_source *source, fc_clip_config *config);
    /* The files whose bytes are the weights, file index or NULL behind the last. NULL: path. */
    const char *(*file)(const fc_weight_source *source, size_t index);
    void (*close)(fc_weight_source *source);
};

/* Opens the checkpoint at path: a file, or a folder that holds one under its usual name. The kind
 * is told by content. On success *source is the caller's until fc_weight_source_close.
 * Errors: IO, FORMAT (names kinds that are not read), MEMORY. */
flatclip_status fc_weight_source_open(const char *path, fc_weight_source **source,
                                      flatclip_error *err);
void fc_weight_source_close(fc_weight_source *source); /* NULL is allowed */

/* The index of the tensor of that name; count if there is none. Bisects. */
size_t fc_weight_source_find(const fc_weight_source *source, const char *name);

/* File index of those whose bytes are the weights; NULL behind the last. */
const char *fc_weight_source_file(const fc_weight_source *source, size_t index);

/* The kinds. Each fills a source of which path alone is set; what it leaves in it after a failure,
 * fc_weight_source_close ends. */
flatclip_status fc_source_safetensors_open(fc_weight_source *source, flatclip_error *err);
flatclip_status fc_source_torch_open(fc_weight_source *source, flatclip_error *err);
flatclip_status fc_source_shards_open(fc_weight_source *source, flatclip_error *err);

#endif
