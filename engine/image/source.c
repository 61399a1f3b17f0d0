/* The bytes of a picture, a block at a time. */
#define _POSIX_C_SOURCE 200809L
#include "engine/image/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static flatclip_status system_failure(const char *what, int number, flatclip_error *err)
{
    char reason[128];
    if (strerror_r(number, reason, sizeof reason))
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot %s: system error %d", what, number);
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot %s: %s", what, reason);
}

flatclip_status fc_source_open(fc_source *source, const char *path, uint8_t *buffer,
                               flatclip_error *err)
{
    *source = (fc_source){ .file = -1, .buffer = buffer };
    do
        source->file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    while (source->file < 0 && errno == EINTR);
    if (source->file < 0)
        return system_failure("open the file", errno, err);
    return FLATCLIP_OK;
}

void fc_source_close(fc_source *source)
{
    if (source->file >= 0)
        close(source->file);
    source->file = -1;
}

void fc_source_memory(fc_source *source, const void *data, size_t bytes)
{
    *source = (fc_source){ .file = -1, .next = data, .left = bytes, .loaded = bytes };
}

/* Reads up to room bytes at `to`; returns how many, 0 at the end and on failure. */
static size_t load(fc_source *source, uint8_t *to, size_t room)
{
    ssize_t count;
    if (source->file < 0 || source->system_error)
        return 0;
    do
        count = read(source->file, to, room);
    while (count < 0 && errno == EINTR);
    if (count < 0) {
        source->system_error = errno;
        return 0;
    }
    source->loaded += (uint64_t)count;
    return (size_t)count;
}

int fc_source_fill(fc_source *source)
{
    source->next = source->buffer;
    source->left = load(source, source->buffer, FC_SOURCE_BYTES);
    return source->left > 0;
}

void fc_source_peek(fc_source *source, size_t bytes)
{
    if (source->file < 0)
        return;
    source->next = source->buffer;
    while (source->left < bytes) {
        const size_t more =
            load(source, source->buffer + source->left, FC_SOURCE_BYTES - source->left);
        if (!more)
            return;
        source->left += more;
    }
}

int fc_source_rewind(fc_source *source)
{
    if (source->file < 0) {
        source->next -= fc_source_position(source);
        source->left = (size_t)source->loaded;
        return 1;
    }
    if (lseek(source->file, 0, SEEK_SET) != 0)
        return 0;
    source->left = 0;
    source->loaded = 0;
    return 1;
}

uint64_t fc_source_position(const fc_source *source)
{
    return source->loaded - source->left;
}

flatclip_status fc_source_ended(const fc_source *source, const char *where, flatclip_error *err)
{
    if (source->system_error)
        return system_failure("read the file", source->system_error, err);
    return fc_fail(err, FLATCLIP_ERR_IMAGE_TRUNCATED,
                   "truncated: the data ends after %llu bytes, %s",
                   (unsigned long long)source->loaded, where);
}
