/* Writing a model file: the tensors of a configuration, in their order, as a stream of floats.
 *
 * Nothing of the model is held in memory. The file grows in the folder of its final name, without
 * a name where the system can do that (else a temporary one), and appears only when it is whole and
 * on the disk. So a program that is killed leaves nothing behind. */
#ifndef FC_MODEL_WRITER_H
#define FC_MODEL_WRITER_H

#include "weights_tools/merges.h"

typedef struct fc_model_writer fc_model_writer;

/* Starts a file for path. dtypes [fc_clip_tensor_count(config)] says how each tensor is stored
 * (F32, F16, BF16); config->weights_sha256 is ignored. merges is the text of the vocabulary that
 * the file is to carry, and must live until commit; NULL, or an empty text: none. On success
 * *writer is the caller's until commit or abandon.
 * Errors: ARGUMENT, IO (names path), MEMORY. */
flatclip_status fc_model_writer_open(const char *path, const fc_clip_config *config,
                                     const fc_dtype *dtypes, const fc_merges *merges,
                                     fc_model_writer **writer, flatclip_error *err);

/* Appends the next count values of the tensor that is being written, or of the next one: a tensor
 * ends when it is full, and a call must not reach beyond that end.
 * Errors: IO (names path), FORMAT for a value that is not finite, or too large for F16 (names the
 * tensor), ARGUMENT for more values than the tensor has left. */
flatclip_status fc_model_writer_append(fc_model_writer *writer, const float *values, size_t count,
                                       flatclip_error *err);

/* Writes weights_sha256 (of the values as stored, as float32) into the header, flushes to the disk
 * and renames. Ends the writer in any case; after a failure nothing is left under either name, but
 * what path was before. sha256 [65] receives the hash, if not NULL.
 * Errors: IO, ARGUMENT for missing values. */
flatclip_status fc_model_writer_commit(fc_model_writer *writer, char *sha256, flatclip_error *err);

/* Removes the temporary file and ends the writer; NULL is allowed. */
void fc_model_writer_abandon(fc_model_writer *writer);

#endif
