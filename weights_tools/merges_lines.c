/* Merges one a line, plain or compressed with gzip. */
#include "weights_tools/merges_parts.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { INFLATED_LIMIT = 16 << 20 }; /* bytes; OpenAI's file has 3 million */

/* Where the line at text ends, its newline not counted. */
static size_t line_length(const char *text, size_t bytes)
{
    const char *newline = memchr(text, '\n', bytes);
    return newline ? (size_t)(newline - text) : bytes;
}

flatclip_status fc_merges_from_lines(const char *name, const char *text, size_t bytes,
                                     fc_merges *merges, flatclip_error *err)
{
    const size_t first = line_length(text, bytes);
    size_t at = 0, used = 0;
    int lines = 0;
    for (size_t i = 0; i + 8 <= first && !at; i++)
        if (!memcmp(text + i, "#version", 8))
            at = first < bytes ? first + 1 : bytes;
    merges->text = malloc(bytes - at + 1);
    if (!merges->text)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the merges of %.200s", name);
    for (; at < bytes && lines < FC_CLIP_MERGES; lines++) {
        size_t length = line_length(text + at, bytes - at);
        const size_t step = length + (at + length < bytes);
        if (length && text[at + length - 1] == '\r') /* the copy of some Windows */
            length--;
        memcpy(merges->text + used, text + at, length);
        used += length;
        merges->text[used++] = '\n';
        at += step;
    }
    merges->bytes = used;
    return fc_merges_check(name, merges->text, used, err);
}

static flatclip_status inflate_all(const char *name, const unsigned char *data, size_t bytes,
                                   char **text, size_t *text_bytes, flatclip_error *err)
{
    enum { GZIP = 15 + 16 };
    z_stream stream = { .next_in = (z_const Bytef *)data, .avail_in = (uInt)bytes };
    *text = malloc(INFLATED_LIMIT);
    if (!*text || inflateInit2(&stream, GZIP) != Z_OK)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to inflate %.200s", name);
    stream.next_out = (Bytef *)*text;
    stream.avail_out = INFLATED_LIMIT;
    const int result = inflate(&stream, Z_FINISH);
    *text_bytes = stream.total_out;
    inflateEnd(&stream);
    if (result == Z_STREAM_END)
        return FLATCLIP_OK;
    if (result == Z_MEM_ERROR)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to inflate %.200s", name);
    return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s %s", name,
                   !stream.avail_out ? "inflates to over 16 MiB, far more than a vocabulary has"
                                     : "is no gzip file, is damaged, or is not complete");
}

flatclip_status fc_merges_from_gzip(const char *name, const unsigned char *data, size_t bytes,
                                    fc_merges *merges, flatclip_error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    flatclip_status status = inflate_all(name, data, bytes, &text, &text_bytes, err);
    if (status == FLATCLIP_OK)
        status = fc_merges_from_lines(name, text, text_bytes, merges, err);
    free(text);
    return status;
}
