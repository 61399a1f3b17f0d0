/* A file that appears under its name only when it is whole and on the disk.
 *
 * Until then it lies in the same folder, without a name where the system can do that (else under a
 * temporary one), so that a program that is killed leaves nothing behind. */
#ifndef FC_WHOLE_FILE_H
#define FC_WHOLE_FILE_H

#include <stdint.h>

#include "engine/base/error.h"

typedef struct fc_whole_file fc_whole_file;

/* Starts a file for path. On success *file is the caller's until commit or abandon.
 * Errors: IO (names path), also where path is a folder or a device; MEMORY. */
flatclip_status fc_whole_file_open(const char *path, fc_whole_file **file, flatclip_error *err);

/* Appends. Returns 0, or the errno. */
int fc_whole_file_put(fc_whole_file *file, const void *data, size_t bytes);

/* Writes over bytes at offset; appending is at an end then. Returns 0, or the errno. */
int fc_whole_file_patch(fc_whole_file *file, uint64_t offset, const void *data, size_t bytes);

/* Reports that an errno of the calls above happened. */
flatclip_status fc_whole_file_failed(const fc_whole_file *file, int problem, flatclip_error *err);

/* Brings the file to the disk and gives it its name, over what had it before.
 * Ends the file in any case; after a failure nothing of it is left. Errors: IO, MEMORY. */
flatclip_status fc_whole_file_commit(fc_whole_file *file, flatclip_error *err);

/* Removes what there is and ends the file; NULL is allowed. */
void fc_whole_file_abandon(fc_whole_file *file);

#endif
