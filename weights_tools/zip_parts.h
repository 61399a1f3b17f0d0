/* What the parts of the zip reader share: zip_end.c finds the directory, zip_directory.c reads and
 * checks it, zip.c reads members. */
#ifndef FC_ZIP_PARTS_H
#define FC_ZIP_PARTS_H

#include <string.h>

#include "weights_tools/zip.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers are read as they lie in the file, which is little-endian"
#endif

enum { FC_ZIP_ENTRY_BYTES = 46 }; /* of a directory entry, without name, extra and comment */

typedef struct {
    fc_zip_member member;
    uint64_t header;                /* offset of the local header */
    unsigned flags;
} fc_zip_entry;

struct fc_zip {
    int file;                       /* the caller's */
    char *path;
    uint64_t file_bytes;
    fc_zip_entry *entry;            /* [count], by offset in the file */
    const fc_zip_member **by_name;  /* [count] */
    size_t count;
    char *names;                    /* the memory of all names */
};

/* Where the directory lies. */
typedef struct {
    uint64_t offset, bytes, count;
} fc_zip_extent;

/* Reads exactly bytes bytes at offset; what names them in messages. Errors: IO. */
flatclip_status fc_zip_read_exactly(const fc_zip *zip, const char *what, uint64_t offset,
                                    size_t bytes, void *out, flatclip_error *err);

/* Finds the directory by the records at the end of the file. It lies inside the file, is at most
 * 16 MiB large and large enough for its count of entries. Errors: IO, FORMAT, MEMORY. */
flatclip_status fc_zip_find_directory(const fc_zip *zip, fc_zip_extent *directory,
                                      flatclip_error *err);

/* Fills entry, by_name, count and names of zip, also where it fails: fc_zip_close frees them.
 * Errors: IO, FORMAT (names the member), MEMORY. */
flatclip_status fc_zip_read_directory(fc_zip *zip, const fc_zip_extent *directory,
                                      flatclip_error *err);

/* Numbers in the file, at any alignment. */
static inline unsigned fc_zip_u16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t fc_zip_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t fc_zip_u64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

#endif
