/* Failing with a message. */
#include "engine/base/error.h"

#include <stdarg.h>
#include <stdio.h>

flatclip_status fc_fail(flatclip_error *err, flatclip_status status, const char *format, ...)
{
    if (!err)
        return status;
    err->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    for (char *c = err->message; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return status;
}

void fc_succeed(flatclip_error *err)
{
    if (!err)
        return;
    err->status = FLATCLIP_OK;
    err->message[0] = '\0';
}

FLATCLIP_API const char *flatclip_status_name(flatclip_status status)
{
    switch (status) {
    case FLATCLIP_OK: return "FLATCLIP_OK";
    case FLATCLIP_ERR_ARGUMENT: return "FLATCLIP_ERR_ARGUMENT";
    case FLATCLIP_ERR_ITEMS: return "FLATCLIP_ERR_ITEMS";
    case FLATCLIP_ERR_STOPPED: return "FLATCLIP_ERR_STOPPED";
    case FLATCLIP_ERR_IO: return "FLATCLIP_ERR_IO";
    case FLATCLIP_ERR_FORMAT: return "FLATCLIP_ERR_FORMAT";
    case FLATCLIP_ERR_IMAGE_EMPTY: return "FLATCLIP_ERR_IMAGE_EMPTY";
    case FLATCLIP_ERR_IMAGE_UNKNOWN: return "FLATCLIP_ERR_IMAGE_UNKNOWN";
    case FLATCLIP_ERR_IMAGE_UNSUPPORTED: return "FLATCLIP_ERR_IMAGE_UNSUPPORTED";
    case FLATCLIP_ERR_IMAGE_TRUNCATED: return "FLATCLIP_ERR_IMAGE_TRUNCATED";
    case FLATCLIP_ERR_IMAGE_CORRUPT: return "FLATCLIP_ERR_IMAGE_CORRUPT";
    case FLATCLIP_ERR_IMAGE_TOO_LARGE: return "FLATCLIP_ERR_IMAGE_TOO_LARGE";
    case FLATCLIP_ERR_NUMERIC: return "FLATCLIP_ERR_NUMERIC";
    case FLATCLIP_ERR_MEMORY: return "FLATCLIP_ERR_MEMORY";
    case FLATCLIP_ERR_UNAVAILABLE: return "FLATCLIP_ERR_UNAVAILABLE";
    case FLATCLIP_ERR_DEVICE: return "FLATCLIP_ERR_DEVICE";
    }
    return "FLATCLIP_ERR_UNKNOWN";
}
