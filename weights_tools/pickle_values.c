/* The values of a pickle, in chunks that are freed together, and bounded in all. */
#include "weights_tools/pickle_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 << 10 };

struct fc_pickle_chunk {
    fc_pickle_chunk *next;
    size_t capacity, used;
    _Alignas(max_align_t) unsigned char data[];
};

void *fc_pickle_refuse(fc_pickle_reader *reader, const char *format, ...)
{
    char what[200];
    va_list args;
    if (reader->status != FLATCLIP_OK)
        return NULL;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    reader->status = fc_fail(reader->err, FLATCLIP_ERR_FORMAT,
                             "%.100s: the pickle %s (at byte %zu)", reader->name, what,
                             reader->opcode_at);
    return NULL;
}

static fc_pickle_chunk *add_chunk(fc_pickle_reader *reader, size_t bytes)
{
    fc_pickle *pickle = reader->pickle;
    const size_t capacity = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    const int fits = capacity <= FC_PICKLE_LIMIT - pickle->taken;
    fc_pickle_chunk *chunk = fits ? malloc(sizeof *chunk + capacity) : NULL;
    if (!chunk) {
        reader->status = fc_fail(reader->err, FLATCLIP_ERR_MEMORY,
                                 fits ? "no memory for the pickle of %.200s"
                                      : "%.150s: the values of its pickle take over 48 MiB, far "
                                        "more than a checkpoint's do", reader->name);
        return NULL;
    }
    *chunk = (fc_pickle_chunk){ pickle->chunks, capacity, 0 };
    pickle->chunks = chunk;
    pickle->taken += capacity;
    return chunk;
}

void *fc_pickle_allocate(fc_pickle_reader *reader, size_t bytes)
{
    fc_pickle_chunk *chunk = reader->pickle->chunks;
    if (reader->status != FLATCLIP_OK)
        return NULL;
    if (bytes > FC_PICKLE_LIMIT)
        bytes = FC_PICKLE_LIMIT + 1; /* is refused below, and does not wrap around here */
    bytes = (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
    if (!chunk || bytes > chunk->capacity - chunk->used)
        chunk = add_chunk(reader, bytes);
    if (!chunk)
        return NULL;
    void *block = chunk->data + chunk->used;
    chunk->used += bytes;
    return memset(block, 0, bytes);
}

fc_pickle_value *fc_pickle_new(fc_pickle_reader *reader, fc_pickle_kind kind)
{
    fc_pickle_value *value = fc_pickle_allocate(reader, sizeof *value);
    if (value)
        value->kind = kind;
    return value;
}

fc_pickle_value *fc_pickle_new_text(fc_pickle_reader *reader, fc_pickle_kind kind,
                                    const void *text, size_t length)
{
    fc_pickle_value *value = fc_pickle_new(reader, kind);
    char *copy = fc_pickle_allocate(reader, length + 1);
    if (!copy)
        return NULL;
    if (length)
        memcpy(copy, text, length);
    value->text = copy;
    value->length = length;
    return value;
}

fc_pickle_value *fc_pickle_new_items(fc_pickle_reader *reader, fc_pickle_kind kind,
                                     fc_pickle_value *const *item, size_t count)
{
    fc_pickle_value *value = fc_pickle_new(reader, kind);
    for (size_t i = 0; i < count && value; i++)
        fc_pickle_append(reader, value, item[i]);
    return reader->status == FLATCLIP_OK ? value : NULL;
}

/* The room of a list is the smallest power of two that holds it: it needs no field of its own. */
void fc_pickle_append(fc_pickle_reader *reader, fc_pickle_value *list, fc_pickle_value *item)
{
    const size_t count = list->count;
    if (!item || reader->status != FLATCLIP_OK)
        return;
    if (!(count & (count - 1))) {
        fc_pickle_value **grown = fc_pickle_allocate(reader,
                                                     (count ? 2 * count : 1) * sizeof *grown);
        if (!grown)
            return;
        if (count)
            memcpy(grown, list->item, count * sizeof *grown);
        list->item = grown;
    }
    list->item[list->count++] = item;
}

const fc_pickle_value *fc_pickle_root(const fc_pickle *pickle)
{
    return pickle->root;
}

const fc_pickle_value *const *fc_pickle_storages(const fc_pickle *pickle, size_t *count)
{
    *count = pickle->storages->count;
    return (const fc_pickle_value *const *)pickle->storages->item;
}

void fc_pickle_close(fc_pickle *pickle)
{
    for (fc_pickle_chunk *chunk = pickle ? pickle->chunks : NULL, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(pickle);
}
