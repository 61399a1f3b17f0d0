/* Where a download lies in the cache while it is fetched and converted, locked against other
 * processes that want the same. */
#ifndef FC_FETCH_PLACE_H
#define FC_FETCH_PLACE_H

#include "engine/base/error.h"

typedef struct {
    char *folder; /* CACHE/download-0123456789abcdef */
    char *part;   /* the download while it is not whole, or not checked: WHOLE.part */
    char *whole;  /* under its own name, which the converter writes into the model */
    char *lock;   /* FOLDER.lock */
    int lock_file;
} fc_fetch_place;

/* Makes the folder (and cache, with all above it) and locks it. While another process has the lock
 * this one waits, after a call of waits(context), if that is not NULL. url gives the name of the
 * download. *place is to be closed in any case.
 * Errors: IO, MEMORY. */
flatclip_status fc_fetch_place_open(fc_fetch_place *place, const char *cache, const char *url,
                                    const char *sha256, void (*waits)(const void *context),
                                    const void *context, flatclip_error *err);

/* Unlocks, and removes the lock, and the folder if nothing is in it. */
void fc_fetch_place_close(fc_fetch_place *place);

#endif
