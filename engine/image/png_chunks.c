/* The chunks of a PNG file, checked and thinned out. */
#include "engine/image/png_chunks.h"

#include "engine/image/exif.h"

#include <stdio.h>
#include <string.h>

#include <zlib.h>

enum {
    SIGNATURE_BYTES = 8,
    HEAD_BYTES = 8, /* length and type */
    CHECKSUM_BYTES = 4,
    HEADER_DATA_BYTES = 13,
    MAX_LENGTH = 0x7fffffff
};

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int is_type(const fc_png_chunks *chunks, const char *type)
{
    return memcmp(chunks->type, type, 4) == 0;
}

/* -- Bytes of the file ------------------------------------------------------------------------- */

static flatclip_status report_end(const fc_png_chunks *chunks)
{
    char where[40];
    if (chunks->type[0])
        snprintf(where, sizeof where, "in a chunk of type %s", chunks->type);
    else
        snprintf(where, sizeof where, "where another chunk should begin");
    return fc_source_ended(chunks->source, where, chunks->err);
}

/* Takes what there is in one piece: *bytes of them, 1 to `most`. Returns NULL at the end. */
static const uint8_t *take_some(fc_png_chunks *chunks, size_t most, size_t *bytes)
{
    fc_source *source = chunks->source;
    *bytes = 0;
    if (!source->left && !fc_source_fill(source))
        return NULL;
    const uint8_t *data = source->next;
    *bytes = most < source->left ? most : source->left;
    source->next += *bytes;
    source->left -= *bytes;
    return data;
}

static flatclip_status take(fc_png_chunks *chunks, uint8_t *out, size_t bytes)
{
    while (bytes) {
        size_t count;
        const uint8_t *data = take_some(chunks, bytes, &count);
        if (!data)
            return report_end(chunks);
        memcpy(out, data, count);
        out += count;
        bytes -= count;
    }
    return FLATCLIP_OK;
}

/* Some of the current chunk's data, which also goes into the checksum. NULL at the end. */
static const uint8_t *take_data(fc_png_chunks *chunks, size_t most, size_t *bytes)
{
    const uint8_t *data =
        take_some(chunks, most < chunks->data_left ? most : chunks->data_left, bytes);
    if (data)
        chunks->checksum = (uint32_t)crc32(chunks->checksum, data, (uInt)*bytes);
    chunks->data_left -= (uint32_t)*bytes;
    return data;
}

/* -- Chunks ------------------------------------------------------------------------------------ */

static void hold(fc_png_chunks *chunks, const uint8_t *bytes, size_t count)
{
    memcpy(chunks->held, bytes, count);
    chunks->held_next = 0;
    chunks->held_end = count;
}

static flatclip_status check_type(const fc_png_chunks *chunks, const uint8_t *head)
{
    for (int i = 4; i < HEAD_BYTES; i++)
        if ((head[i] | 0x20) < 'a' || (head[i] | 0x20) > 'z')
            return fc_fail(chunks->err, FLATCLIP_ERR_IMAGE_CORRUPT,
                           "corrupt PNG: no chunk begins at byte %llu, where one should",
                           (unsigned long long)fc_source_position(chunks->source) - HEAD_BYTES);
    return FLATCLIP_OK;
}

/* Reads the length and type of a chunk. */
static flatclip_status start_chunk(fc_png_chunks *chunks, uint8_t head[HEAD_BYTES])
{
    chunks->type[0] = '\0';
    FC_TRY(take(chunks, head, HEAD_BYTES));
    FC_TRY(check_type(chunks, head));
    memcpy(chunks->type, head + 4, 4);
    chunks->type[4] = '\0';
    chunks->data_left = big_endian(head);
    chunks->checksum = (uint32_t)crc32(0, head + 4, 4);
    if (chunks->data_left > MAX_LENGTH)
        return fc_fail(chunks->err, FLATCLIP_ERR_IMAGE_CORRUPT,
                       "corrupt PNG: a %s chunk has a length of %lu bytes, more than PNG allows",
                       chunks->type, (unsigned long)chunks->data_left);
    return FLATCLIP_OK;
}

/* Reads and verifies the checksum after a chunk's data. */
static flatclip_status end_chunk(fc_png_chunks *chunks, uint8_t stored[CHECKSUM_BYTES])
{
    FC_TRY(take(chunks, stored, CHECKSUM_BYTES));
    if (big_endian(stored) != chunks->checksum)
        return fc_fail(chunks->err, FLATCLIP_ERR_IMAGE_CORRUPT,
                       "corrupt PNG: checksum of the %s chunk is %08lx, its data give %08lx; the "
                       "file is damaged before byte %llu",
                       chunks->type, (unsigned long)big_endian(stored),
                       (unsigned long)chunks->checksum,
                       (unsigned long long)fc_source_position(chunks->source));
    return FLATCLIP_OK;
}

/* Passes over the rest of a chunk, keeping the first eXIf if asked to. */
static flatclip_status skip_chunk(fc_png_chunks *chunks)
{
    const int is_kept = chunks->exif && !chunks->exif_bytes && is_type(chunks, "eXIf");
    uint8_t stored[CHECKSUM_BYTES];
    while (chunks->data_left) {
        size_t count;
        const uint8_t *data = take_data(chunks, FC_SOURCE_BYTES, &count);
        if (!data)
            return report_end(chunks);
        if (is_kept && count > FC_EXIF_BYTES - chunks->exif_bytes)
            count = FC_EXIF_BYTES - chunks->exif_bytes;
        if (is_kept) {
            memcpy(chunks->exif + chunks->exif_bytes, data, count);
            chunks->exif_bytes += count;
        }
    }
    return end_chunk(chunks, stored);
}

static int is_wanted(const fc_png_chunks *chunks)
{
    return is_type(chunks, "IDAT") || is_type(chunks, "IEND") ||
           (is_type(chunks, "PLTE") && chunks->header.colour_type == FC_PNG_INDEX);
}

/* Goes to the next chunk that libpng is to see, and holds its head. */
static flatclip_status next_chunk(fc_png_chunks *chunks)
{
    uint8_t head[HEAD_BYTES];
    for (;;) {
        FC_TRY(start_chunk(chunks, head));
        if (is_wanted(chunks))
            break;
        /* The case of the first letter tells what a reader may pass over. */
        if (!(head[4] & 0x20) && !is_type(chunks, "PLTE"))
            return fc_fail(chunks->err, FLATCLIP_ERR_IMAGE_UNSUPPORTED,
                           "the PNG has a chunk of type %s, which is not known and not optional",
                           chunks->type);
        FC_TRY(skip_chunk(chunks));
    }
    hold(chunks, head, HEAD_BYTES);
    return FLATCLIP_OK;
}

/* -- The header -------------------------------------------------------------------------------- */

static flatclip_status check_first_chunk(const fc_png_chunks *chunks)
{
    if (is_type(chunks, "CgBI"))
        return fc_fail(chunks->err, FLATCLIP_ERR_IMAGE_UNSUPPORTED,
                       "this is Apple's variant of PNG (CgBI); convert it to a real PNG");
    if (!is_type(chunks, "IHDR") || chunks->data_left != HEADER_DATA_BYTES)
        return fc_fail(chunks->err, FLATCLIP_ERR_IMAGE_CORRUPT,
                       "corrupt PNG: it begins with a %s chunk of %lu bytes, expected IHDR of %d",
                       chunks->type, (unsigned long)chunks->data_left, HEADER_DATA_BYTES);
    return FLATCLIP_OK;
}

/* PNG's table of the depths that each colour type may have. */
static int is_known_kind(const fc_png_header *header)
{
    const int depth = header->bit_depth, is_power = depth > 0 && (depth & (depth - 1)) == 0;
    switch (header->colour_type) {
    case FC_PNG_GRAY: return is_power && depth <= 16;
    case FC_PNG_INDEX: return is_power && depth <= 8;
    case FC_PNG_RGB:
    case FC_PNG_GRAY_ALPHA:
    case FC_PNG_RGBA: return depth == 8 || depth == 16;
    default: return 0;
    }
}

static flatclip_status check_header(const fc_png_header *header, const uint8_t *methods,
                                    flatclip_error *err)
{
    if (!header->width || !header->height || header->width > MAX_LENGTH ||
        header->height > MAX_LENGTH)
        return fc_fail(err, FLATCLIP_ERR_IMAGE_CORRUPT,
                       "corrupt PNG: width %lu, height %lu, expected 1 to %d",
                       (unsigned long)header->width, (unsigned long)header->height, MAX_LENGTH);
    if (!is_known_kind(header))
        return fc_fail(err, FLATCLIP_ERR_IMAGE_CORRUPT,
                       "corrupt PNG: colour type %d with a bit depth of %d does not exist",
                       header->colour_type, header->bit_depth);
    if (methods[0] || methods[1] || methods[2] > 1)
        return fc_fail(
            err, FLATCLIP_ERR_IMAGE_CORRUPT,
            "corrupt PNG: compression %d, filter %d, interlace %d, expected 0, 0, 0 or 1",
            methods[0], methods[1], methods[2]);
    return FLATCLIP_OK;
}

static flatclip_status read_header(fc_png_chunks *chunks, const uint8_t *data)
{
    chunks->header = (fc_png_header){
        .width = big_endian(data),
        .height = big_endian(data + 4),
        .bit_depth = data[8],
        .colour_type = data[9],
        .is_interlaced = data[12] == 1,
    };
    return check_header(&chunks->header, data + 10, chunks->err);
}

flatclip_status fc_png_chunks_open(fc_png_chunks *chunks, fc_source *source, uint8_t *exif,
                                   flatclip_error *err)
{
    uint8_t start[SIGNATURE_BYTES + HEAD_BYTES + HEADER_DATA_BYTES + CHECKSUM_BYTES];
    uint8_t *head = start + SIGNATURE_BYTES, *data = head + HEAD_BYTES;

    *chunks = (fc_png_chunks){ .source = source, .err = err, .exif = exif };
    FC_TRY(take(chunks, start, SIGNATURE_BYTES));
    FC_TRY(start_chunk(chunks, head));
    FC_TRY(check_first_chunk(chunks));
    FC_TRY(take(chunks, data, HEADER_DATA_BYTES));
    chunks->checksum = (uint32_t)crc32(chunks->checksum, data, HEADER_DATA_BYTES);
    chunks->data_left = 0;
    FC_TRY(end_chunk(chunks, data + HEADER_DATA_BYTES));
    FC_TRY(read_header(chunks, data));
    hold(chunks, start, sizeof start);
    chunks->type[0] = '\0';
    return FLATCLIP_OK;
}

/* -- Handing over ------------------------------------------------------------------------------ */

/* Hands over something: what is held, then the data, then the checksum, then the next chunk. */
static flatclip_status read_some(fc_png_chunks *chunks, uint8_t *out, size_t most, size_t *bytes)
{
    *bytes = 0;
    if (chunks->held_next == chunks->held_end && chunks->type[0] && !chunks->data_left) {
        uint8_t stored[CHECKSUM_BYTES];
        FC_TRY(end_chunk(chunks, stored));
        hold(chunks, stored, sizeof stored);
        chunks->type[0] = '\0';
    } else if (chunks->held_next == chunks->held_end && !chunks->type[0]) {
        FC_TRY(next_chunk(chunks));
    }
    if (chunks->held_next < chunks->held_end) {
        const size_t left = chunks->held_end - chunks->held_next;
        *bytes = most < left ? most : left;
        memcpy(out, chunks->held + chunks->held_next, *bytes);
        chunks->held_next += *bytes;
        return FLATCLIP_OK;
    }
    const uint8_t *data = take_data(chunks, most, bytes);
    if (!data)
        return report_end(chunks);
    memcpy(out, data, *bytes);
    return FLATCLIP_OK;
}

flatclip_status fc_png_chunks_read(fc_png_chunks *chunks, uint8_t *out, size_t bytes)
{
    while (bytes) {
        size_t count = 0;
        FC_TRY(read_some(chunks, out, bytes, &count));
        out += count;
        bytes -= count;
    }
    return FLATCLIP_OK;
}

flatclip_status fc_png_chunks_check_rest(fc_png_chunks *chunks)
{
    return chunks->type[0] ? skip_chunk(chunks) : FLATCLIP_OK;
}

void fc_png_chunks_find_exif(fc_png_chunks *chunks)
{
    uint8_t head[HEAD_BYTES];
    chunks->err = NULL; /* the picture is good, whatever follows */
    if (fc_png_chunks_check_rest(chunks) != FLATCLIP_OK)
        return;
    while (!chunks->exif_bytes && start_chunk(chunks, head) == FLATCLIP_OK &&
           !is_type(chunks, "IEND"))
        if (skip_chunk(chunks) != FLATCLIP_OK)
            return;
}
