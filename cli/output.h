/* Where embeddings go: OUT.npy with OUT.jsonl beside it, OUT.jsonl alone, or standard output.
 *
 * Results come one by one and leave at once, so that memory does not grow with their number. Only
 * good inputs get a row; rows are numbered in the order of the inputs.
 *     {"path": "a.jpg", "row": 0}                         beside .npy
 *     {"path": "a.jpg", "row": 0, "embedding": [0.1, …]}  in .jsonl alone, and on standard output
 *     {"path": "b.jpg", "error": "empty file"}            everywhere */
#ifndef FC_OUTPUT_H
#define FC_OUTPUT_H

#include "flatclip.h"

typedef struct fc_output fc_output;

/* Whether path ends like an output that can be written. Errors: ARGUMENT. */
flatclip_status fc_output_check_name(const char *path, flatclip_error *err);

/* Opens path, or standard output for NULL, for embeddings of columns floats. Files are temporary
 * until fc_output_publish. On success *output is the caller's until fc_output_free.
 * Errors: ARGUMENT, IO, MEMORY. */
flatclip_status fc_output_open(const char *path, int columns, fc_output **output,
                               flatclip_error *err);

/* Reserves room for up to rows embeddings. Errors: IO. */
flatclip_status fc_output_reserve(fc_output *output, size_t rows, flatclip_error *err);

/* Writes the next row [columns] or the reason why an input has none. Errors: IO. */
flatclip_status fc_output_row(fc_output *output, const char *path, const float *embedding,
                              flatclip_error *err);
flatclip_status fc_output_failure(fc_output *output, const char *path, const char *reason,
                                  flatclip_error *err);

size_t fc_output_rows(const fc_output *output);

/* Completes the output and gives the files their names. Errors: IO. */
flatclip_status fc_output_publish(fc_output *output, flatclip_error *err);

/* Whether writing failed because the reader of standard output has gone. */
int fc_output_reader_left(const fc_output *output);

/* Frees output and removes what is not published; NULL is allowed. */
void fc_output_free(fc_output *output);

#endif
