/* Structs that grow at their end. */
#include "engine/options.h"

#include <string.h>

flatclip_status fc_options_read(const char *name, const void *from, void *to, size_t to_bytes,
                                flatclip_error *err)
{
    if (!from)
        return FLATCLIP_OK;
    size_t from_bytes;
    memcpy(&from_bytes, from, sizeof from_bytes);
    if (from_bytes < sizeof from_bytes || from_bytes > 4096)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "%s.struct_size is %zu; start from the INIT macro of flatclip.h", name,
                       from_bytes);
    for (size_t i = to_bytes; i < from_bytes; i++)
        if (((const char *)from)[i])
            return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                           "%s uses an option that this version of the library does not know",
                           name);
    const size_t bytes = from_bytes < to_bytes ? from_bytes : to_bytes;
    memcpy((char *)to + sizeof(size_t), (const char *)from + sizeof(size_t),
           bytes - sizeof(size_t));
    return FLATCLIP_OK;
}

void fc_struct_write(const void *from, size_t from_bytes, void *to)
{
    size_t to_bytes;
    memcpy(&to_bytes, to, sizeof to_bytes);
    const size_t bytes = to_bytes < from_bytes ? to_bytes : from_bytes;
    if (bytes > sizeof(size_t))
        memcpy((char *)to + sizeof(size_t), (const char *)from + sizeof(size_t),
               bytes - sizeof(size_t));
}

flatclip_status fc_check_range(const char *name, long long value, long long first, long long last,
                               flatclip_error *err)
{
    if (value >= first && value <= last)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "%s is %lld, expected %lld..%lld", name, value,
                   first, last);
}
