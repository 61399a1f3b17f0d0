/* A stream of data that another thread consumes: writes to a file, or hashes, while the one that
 * makes it goes on. */
#ifndef FC_BACKGROUND_H
#define FC_BACKGROUND_H

#include "engine/base/error.h"

typedef struct fc_background fc_background;

/* Takes the next bytes of the stream, on the other thread. Returns 0, or an errno; after one it is
 * not called again. */
typedef int fc_consume_fn(void *user, const void *data, size_t bytes);

/* Starts the thread. On success *stream is the caller's until fc_background_close; what user stands
 * for must not be used until then.
 * Errors: MEMORY, also where no thread can be had. */
flatclip_status fc_background_open(fc_consume_fn *consume, void *user, fc_background **stream,
                                   flatclip_error *err);

/* Appends a copy of data. Waits while 2 MiB are under way. After a failure it does nothing. */
void fc_background_put(fc_background *stream, const void *data, size_t bytes);

/* Waits until all that was put is consumed and ends the thread; NULL is allowed. Returns 0, or the
 * first failure's errno. */
int fc_background_close(fc_background *stream);

#endif
