/* Whether a model file is what it says, and computes as it should on this machine. */
#ifndef FC_VERIFY_H
#define FC_VERIFY_H

#include "engine/base/error.h"

typedef enum { FC_VERIFY_OK, FC_VERIFY_FAILED, FC_VERIFY_SKIPPED } fc_verify_result;

/* Receives each check as it ends: its name ("sha256"), its result, and a line that says what was
 * found, or why it failed or was skipped. The texts are valid during the call. */
typedef void fc_verify_fn(void *user, const char *check, fc_verify_result result,
                          const char *detail);

/* Runs all checks on the model file at path, one after the other, whatever the others found:
 *
 *     header       the file opens, its metadata is whole, every tensor is there in its shape
 *     values       no value is NaN or infinite
 *     sha256       of all values, equal to weights_sha256 of the metadata
 *     vocabulary   tokenizer.merges, where there is one
 *     image tower  pictures made by a formula give finite rows of unit length, with the same bits
 *                  alone and in batches, at other places
 *
 * The values are read once, in pieces; for the last check the model is loaded. Returns how many
 * failed. */
int fc_verify(const char *path, fc_verify_fn *on_check, void *user);

#endif
