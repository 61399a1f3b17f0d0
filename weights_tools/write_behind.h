/* Writing a file in a thread of its own, so that computing what comes next does not wait for it. */
#ifndef FC_WRITE_BEHIND_H
#define FC_WRITE_BEHIND_H

#include "engine/base/error.h"

typedef struct fc_write_behind fc_write_behind;

/* Starts writing to the descriptor file, from where it stands, which stays the caller's and must
 * not be used until the close. On success *writer is the caller's until then.
 * Errors: MEMORY, also where no thread can be had. */
flatclip_status fc_write_behind_open(int file, fc_write_behind **writer, flatclip_error *err);

/* Appends a copy of data. Waits while 2 MiB are under way. After a failure it does nothing. */
void fc_write_behind_put(fc_write_behind *writer, const void *data, size_t bytes);

/* Waits for all that was put and ends the writer; NULL is allowed. Returns 0, or the errno of the
 * first write that failed. */
int fc_write_behind_close(fc_write_behind *writer);

#endif
