/* Builds zip archives in memory for tests, good ones and, by its knobs, broken ones.
 *
 *     zip_builder zip;
 *     zip_builder_start_torch(&zip);                      // or zip_builder_start: a plain archive
 *     zip_builder_add(&zip, "a/data.pkl", pickle, bytes);
 *     zip.deflated = 1;                                   // from here on
 *     zip_builder_add(&zip, "a/code/m.py", text, bytes)->crc32 ^= 1;   // the directory will lie
 *     zip_builder_finish(&zip);                           // zip.data [zip.bytes] is the archive
 *     zip_builder_save(&zip, path);
 *     zip_builder_free(&zip);
 *
 * It shares no code with the reader under test. Everything is static inline because a test is
 * linked from one file. */
#ifndef ZIP_BUILDER_H
#define ZIP_BUILDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

enum { ZIP_BUILDER_MEMBERS = 512, ZIP_BUILDER_NAME = 120 };

/* A member as the directory will describe it: to be changed before zip_builder_finish. */
typedef struct {
    char name[ZIP_BUILDER_NAME];
    size_t name_bytes;
    unsigned flags, method, disk;
    uint32_t crc32;
    uint64_t packed, bytes;
    uint64_t header;            /* offset of its local header */
    int zip64;                  /* sizes and offset go to a zip64 field, and are saturated */
    size_t data, entry;         /* offsets of its first packed byte, and of its directory entry */
} zip_builder_member;

typedef struct {
    unsigned char *data;
    size_t bytes, capacity;
    /* Knobs for the members that follow. */
    int deflated;               /* else stored */
    int descriptor;             /* sizes follow the data, and are 0 in the local header */
    int zip64;                  /* numbers in zip64 fields though they would fit */
    size_t align;               /* of the data, by padding with a field FB as torch does; or 0 */
    /* Knobs for the end. */
    int zip64_end;              /* with a zip64 record and its locator, as torch writes */
    const char *comment;        /* or NULL */
    /* Where things are, once they are there. */
    size_t directory, record, locator, end;
    zip_builder_member *member; /* [ZIP_BUILDER_MEMBERS] */
    size_t count;
} zip_builder;

static inline void zip_builder_start(zip_builder *zip)
{
    memset(zip, 0, sizeof *zip);
    zip->member = calloc(ZIP_BUILDER_MEMBERS, sizeof *zip->member);
    assert_non_null(zip->member);
}

/* Everything as torch.save does it: stored, aligned to 64, descriptors, zip64 at the end. */
static inline void zip_builder_start_torch(zip_builder *zip)
{
    zip_builder_start(zip);
    zip->align = 64;
    zip->descriptor = 1;
    zip->zip64_end = 1;
}

static inline void zip_builder_free(zip_builder *zip)
{
    free(zip->data);
    free(zip->member);
}

/* -- Bytes ----------------------------------------------------------------------------------- */

static inline void zip_builder_append(zip_builder *zip, const void *data, size_t bytes)
{
    if (zip->capacity - zip->bytes < bytes) {
        zip->capacity = 2 * zip->capacity + bytes;
        zip->data = realloc(zip->data, zip->capacity);
        assert_non_null(zip->data);
    }
    if (bytes)
        memcpy(zip->data + zip->bytes, data, bytes);
    zip->bytes += bytes;
}

/* Writes the lowest width bytes of value over those at offset. */
static inline void zip_builder_patch(zip_builder *zip, size_t offset, int width, uint64_t value)
{
    assert_true(offset + (size_t)width <= zip->bytes);
    for (int i = 0; i < width; i++)
        zip->data[offset + (size_t)i] = (unsigned char)(value >> 8 * i);
}

/* Appends numbers, the lowest byte first: pairs of width in bytes and uint64_t value; 0 ends. */
static inline void zip_builder_numbers(zip_builder *zip, int width, ...)
{
    static const unsigned char blank[8];
    va_list args;
    va_start(args, width);
    for (; width; width = va_arg(args, int)) {
        zip_builder_append(zip, blank, (size_t)width);
        zip_builder_patch(zip, zip->bytes - (size_t)width, width, va_arg(args, uint64_t));
    }
    va_end(args);
}

#define ZIP_N(width, value) width, (uint64_t)(value)

/* -- Members --------------------------------------------------------------------------------- */

static inline void *zip_builder_deflate(const void *data, size_t bytes, size_t *packed)
{
    z_stream stream = { 0 };
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t room = deflateBound(&stream, bytes);
    unsigned char *out = malloc(room);
    assert_non_null(out);
    stream.next_in = (z_const Bytef *)data;
    stream.avail_in = (uInt)bytes;
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *packed = stream.total_out;
    deflateEnd(&stream);
    return out;
}

/* The local header, with its extra fields: that of zip64 if need be, and the padding. */
static inline void zip_builder_local(zip_builder *zip, const zip_builder_member *m)
{
    const size_t field = m->zip64 ? 20 : 0;
    const size_t unpadded = zip->bytes + 30 + m->name_bytes + field + 4;
    const size_t padding = zip->align ? 4 + (zip->align - unpadded % zip->align) % zip->align : 0;
    const int later = zip->descriptor;
    const uint64_t packed = later ? 0 : m->zip64 ? UINT32_MAX : m->packed;
    const uint64_t bytes = later ? 0 : m->zip64 ? UINT32_MAX : m->bytes;
    zip_builder_numbers(zip, ZIP_N(4, 0x04034b50), ZIP_N(2, 20), ZIP_N(2, m->flags),
                        ZIP_N(2, m->method), ZIP_N(4, 0), ZIP_N(4, later ? 0 : m->crc32),
                        ZIP_N(4, packed), ZIP_N(4, bytes), ZIP_N(2, m->name_bytes),
                        ZIP_N(2, field + padding), 0);
    zip_builder_append(zip, m->name, m->name_bytes);
    if (field)
        zip_builder_numbers(zip, ZIP_N(2, 1), ZIP_N(2, 16), ZIP_N(8, m->bytes),
                            ZIP_N(8, m->packed), 0);
    if (padding)
        zip_builder_numbers(zip, ZIP_N(2, 'F' | 'B' << 8), ZIP_N(2, padding - 4), 0);
    for (size_t i = 4; i < padding; i++)
        zip_builder_append(zip, "Z", 1);
}

/* Adds a member and returns it; so long as fewer than ZIP_BUILDER_MEMBERS are added, it stays in
 * its place. The name may be used with other lengths than strlen by changing name_bytes. */
static inline zip_builder_member *zip_builder_add(zip_builder *zip, const char *name,
                                                  const void *data, size_t bytes)
{
    assert_true(zip->count < ZIP_BUILDER_MEMBERS && strlen(name) < ZIP_BUILDER_NAME);
    zip_builder_member *m = &zip->member[zip->count++];
    size_t packed = bytes;
    void *deflated = zip->deflated ? zip_builder_deflate(data, bytes, &packed) : NULL;
    memcpy(m->name, name, strlen(name));
    m->name_bytes = strlen(name);
    m->flags = 0x0800 | (zip->descriptor ? 8 : 0);
    m->method = zip->deflated ? 8 : 0;
    m->crc32 = (uint32_t)crc32(crc32(0, NULL, 0), bytes ? data : (const void *)"", (uInt)bytes);
    m->bytes = bytes;
    m->packed = packed;
    m->header = zip->bytes;
    m->zip64 = zip->zip64;
    zip_builder_local(zip, m);
    m->data = zip->bytes;
    zip_builder_append(zip, deflated ? deflated : data, packed);
    free(deflated);
    if (zip->descriptor)
        zip_builder_numbers(zip, ZIP_N(4, 0x08074b50), ZIP_N(4, m->crc32), ZIP_N(4, m->packed),
                            ZIP_N(4, m->bytes), 0);
    return m;
}

/* -- The end --------------------------------------------------------------------------------- */

static inline void zip_builder_entry(zip_builder *zip, zip_builder_member *m)
{
    const int wide = m->zip64;
    m->entry = zip->bytes;
    zip_builder_numbers(zip, ZIP_N(4, 0x02014b50), ZIP_N(2, 45), ZIP_N(2, 20), ZIP_N(2, m->flags),
                        ZIP_N(2, m->method), ZIP_N(4, 0), ZIP_N(4, m->crc32),
                        ZIP_N(4, wide ? UINT32_MAX : m->packed),
                        ZIP_N(4, wide ? UINT32_MAX : m->bytes), ZIP_N(2, m->name_bytes),
                        ZIP_N(2, wide ? 28 : 0), ZIP_N(2, 0), ZIP_N(2, m->disk), ZIP_N(6, 0),
                        ZIP_N(4, wide ? UINT32_MAX : m->header), 0);
    zip_builder_append(zip, m->name, m->name_bytes);
    if (wide)
        zip_builder_numbers(zip, ZIP_N(2, 1), ZIP_N(2, 24), ZIP_N(8, m->bytes),
                            ZIP_N(8, m->packed), ZIP_N(8, m->header), 0);
}

/* Writes the directory, as the members are now, and the records at the end. */
static inline void zip_builder_finish(zip_builder *zip)
{
    const size_t comment = zip->comment ? strlen(zip->comment) : 0;
    zip->directory = zip->bytes;
    for (size_t i = 0; i < zip->count; i++)
        zip_builder_entry(zip, &zip->member[i]);
    const size_t bytes = zip->bytes - zip->directory;
    if (zip->zip64_end) {
        zip->record = zip->bytes;
        zip_builder_numbers(zip, ZIP_N(4, 0x06064b50), ZIP_N(8, 44), ZIP_N(2, 45), ZIP_N(2, 45),
                            ZIP_N(8, 0), ZIP_N(8, zip->count), ZIP_N(8, zip->count),
                            ZIP_N(8, bytes), ZIP_N(8, zip->directory), 0);
        zip->locator = zip->bytes;
        zip_builder_numbers(zip, ZIP_N(4, 0x07064b50), ZIP_N(4, 0), ZIP_N(8, zip->record),
                            ZIP_N(4, 1), 0);
    }
    zip->end = zip->bytes;
    zip_builder_numbers(zip, ZIP_N(4, 0x06054b50), ZIP_N(4, 0), ZIP_N(2, zip->count),
                        ZIP_N(2, zip->count), ZIP_N(4, bytes), ZIP_N(4, zip->directory),
                        ZIP_N(2, comment), 0);
    zip_builder_append(zip, zip->comment, comment);
}

static inline void zip_builder_save(const zip_builder *zip, const char *path)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(zip->data, 1, zip->bytes, file), zip->bytes);
    assert_int_equal(fclose(file), 0);
}

#endif
