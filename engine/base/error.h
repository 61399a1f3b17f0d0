/* Failing with a message: the only way in which the engine reports anything. */
#ifndef FC_ERROR_H
#define FC_ERROR_H

#include "flatclip.h"

/* Fills *err (which may be NULL) and returns status, so that callers write `return fc_fail(...)`.
 * The message says what was found, what was expected and where; it is cut, never overrun. Bytes
 * that would break a line are replaced by '?', so that a file name cannot forge a log line. */
__attribute__((format(printf, 3, 4)))
flatclip_status fc_fail(flatclip_error *err, flatclip_status status, const char *format, ...);

/* Marks *err (which may be NULL) as good. */
void fc_succeed(flatclip_error *err);

/* Forwards a failure. The only macro that hides a return. */
#define FC_TRY(call)                          \
    do {                                      \
        const flatclip_status try_ = (call);  \
        if (try_ != FLATCLIP_OK) return try_; \
    } while (0)

#endif
