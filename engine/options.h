/* Structs that grow at their end: the caller says how large his is. */
#ifndef FC_OPTIONS_H
#define FC_OPTIONS_H

#include "engine/base/error.h"

/* Copies from (size from_size as its first member says, or NULL for all defaults) over to, whose
 * struct_size is to_bytes; what from does not have keeps to's value. Fields that the caller knows
 * and this library does not must be zero. name stands in the message. Errors: ARGUMENT. */
flatclip_status fc_options_read(const char *name, const void *from, void *to, size_t to_bytes,
                                flatclip_error *err);

/* Copies from (from_bytes large) to the caller's struct, as far as its struct_size goes. */
void fc_struct_write(const void *from, size_t from_bytes, void *to);

/* Checks that value lies in first..last. Errors: ARGUMENT (names the option, value and range). */
flatclip_status fc_check_range(const char *name, long long value, long long first, long long last,
                               flatclip_error *err);

#endif
