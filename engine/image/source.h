/* The bytes of a picture, in order, a block at a time: from a file or from memory.
 *
 * Files go through a fixed buffer and are read from front to back, so that pipes work and nothing
 * grows with the file. */
#ifndef FC_SOURCE_H
#define FC_SOURCE_H

#include "engine/base/error.h"

#define FC_SOURCE_BYTES 65536 /* one block of a file */

typedef struct {
    int file;            /* descriptor, or -1 */
    uint8_t *buffer;     /* [FC_SOURCE_BYTES], the caller's; for files */
    const uint8_t *next; /* what has not been taken yet: the reader moves these two */
    size_t left;
    uint64_t loaded;  /* bytes so far, those of this block included */
    int system_error; /* errno of a failed read, or 0 */
} fc_source;

/* Opens a file; on success the caller closes it. Errors: IO, with the system's reason. */
flatclip_status fc_source_open(fc_source *source, const char *path, uint8_t *buffer,
                               flatclip_error *err);
void fc_source_close(fc_source *source);

/* Takes bytes that are in memory, as one block. They stay the caller's. */
void fc_source_memory(fc_source *source, const void *data, size_t bytes);

/* Fetches the next block once left is 0. Returns 0 at the end and on a failed read. */
int fc_source_fill(fc_source *source);

/* Fetches until left is `bytes` or more, or the data ends. Only at the start; bytes is small. */
void fc_source_peek(fc_source *source, size_t bytes);

/* Goes back to the first byte. Returns 0 for what cannot, such as a pipe. */
int fc_source_rewind(fc_source *source);

/* Bytes that have been taken. */
uint64_t fc_source_position(const fc_source *source);

/* Explains why fc_source_fill returned 0: IO with the system's reason, or TRUNCATED with how much
 * there was; where completes "the data ends after 123 bytes, ". */
flatclip_status fc_source_ended(const fc_source *source, const char *where, flatclip_error *err);

#endif
