/* What one CLIP model is: its dimensions, and from them the name and shape of every tensor.
 *
 * Everything that reads or writes model files (loader, synth, convert) takes both from here. Names
 * are those of OpenAI's state dict. docs/file-format.md lists the metadata keys. */
#ifndef FC_CLIP_CONFIG_H
#define FC_CLIP_CONFIG_H

#include "engine/base/safetensors.h"

#define FC_HEAD_DIM 64          /* every public CLIP transformer has heads of this size */
#define FC_FORMAT_VERSION "1"

/* The vocabulary's merges as text, in a tensor of bytes that is no weight: a model whose vocabulary
 * is CLIP's, of FC_CLIP_VOCABULARY entries, may have it, as the last tensor of the file. */
#define FC_MERGES_TENSOR "tokenizer.merges"
enum { FC_CLIP_VOCABULARY = 49408, FC_MERGES_LIMIT = 1 << 20 /* bytes */ };

typedef struct {
    int width, layers, heads;
} fc_tower_config;

typedef struct {
    int image_size, patch_size; /* pixels */
    int embed_dim;
    fc_tower_config vision;
    fc_tower_config text;       /* layers 0: the file has no text tower */
    int context_length, vocab_size;
    flatclip_activation activation;
    char activation_from[160];  /* why this one: "config.json has hidden_act gelu"; "" if unknown */
    flatclip_recipe recipe;     /* OPENAI or HF, never AUTO */
    float mean[3], std[3];
    char source[128];           /* of the weights: "synth vitb32 seed 1", a file name */
    char source_sha256[65];     /* of the source file, lower-case hex; "" where there is none */
    char weights_sha256[65];    /* of all tensors as float32 in the order below; "" while unknown */
} fc_clip_config;

/* Tokens of the image tower: one a patch, and the class token. */
int fc_clip_tokens(const fc_clip_config *config);

/* The words of model files, messages and the command line: quickgelu or gelu, openai or hf. */
const char *fc_activation_word(flatclip_activation activation);
const char *fc_recipe_word(flatclip_recipe recipe);

/* OpenAI's mean and std, which every public CLIP except a few fine-tunes uses. */
void fc_clip_default_normalisation(fc_clip_config *config);

/* Checks that dimensions agree with each other and lie within sane bounds, so that no product of
 * them overflows later. path stands in messages. Errors: FORMAT. */
flatclip_status fc_clip_config_check(const fc_clip_config *config, const char *path,
                                     flatclip_error *err);

/* Reads and checks the metadata of a model file. Errors: FORMAT (says which key). */
flatclip_status fc_clip_config_read(const fc_safetensors *file, fc_clip_config *config,
                                    flatclip_error *err);

/* Hands every key and value of the metadata to put, in the order of the file. */
typedef void fc_metadata_fn(void *user, const char *key, const char *value);
void fc_clip_config_write(const fc_clip_config *config, fc_metadata_fn *put, void *user);

typedef struct {
    char name[80];
    int rank;
    uint64_t dim[4];
    uint64_t count;
} fc_tensor_spec;

/* Tensor index of the model, 0 <= index < fc_clip_tensor_count, in the order of the file: the image
 * tower first, so that a reader of it alone reads one stretch. */
int fc_clip_tensor_count(const fc_clip_config *config);
void fc_clip_tensor_spec(const fc_clip_config *config, int index, fc_tensor_spec *spec);

/* Writes a shape as "[768, 512]" for messages, cut at capacity. */
void fc_shape_format(const uint64_t *dim, int rank, char *out, size_t capacity);

/* Checks that file holds exactly the tensors of config, each with its shape and a floating storage
 * type (F32, F16, BF16), and the merges, if at all, as they must be.
 * Errors: FORMAT (names the missing, extra or wrong tensor). */
flatclip_status fc_clip_check_tensors(const fc_safetensors *file, const fc_clip_config *config,
                                      flatclip_error *err);

#endif
