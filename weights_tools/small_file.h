/* Reading a file whole that is small by its nature: a configuration, an index, a vocabulary. */
#ifndef FC_SMALL_FILE_H
#define FC_SMALL_FILE_H

#include "engine/base/error.h"

typedef struct {
    char *path;             /* folder of the file beside, and name */
    char *text;             /* [bytes], and a NUL behind; NULL where the file is absent */
    size_t bytes;
} fc_small_file;

/* Reads name in the folder of the file beside ("weights/model.bin" and "config.json" give
 * weights/config.json), of at most limit bytes. An absent file is no failure. The caller ends *file
 * with fc_small_file_free, also after a failure.
 * Errors: IO, FORMAT for a larger file, MEMORY. */
flatclip_status fc_small_file_read(const char *beside, const char *name, size_t limit,
                                   fc_small_file *file, flatclip_error *err);
void fc_small_file_free(fc_small_file *file);

#endif
