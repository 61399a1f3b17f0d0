/* Finds the orientation in the first directory of a TIFF structure. */
#include "engine/image/exif.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_LONG = 4, ENTRY_BYTES = 12 };

typedef struct {
    const uint8_t *data;
    size_t bytes;
    int big_endian;
} tiff;

/* An unsigned number of `width` bytes at offset; 0 beyond the end. */
static uint32_t number(const tiff *t, size_t offset, size_t width)
{
    uint32_t value = 0;
    if (offset > t->bytes || t->bytes - offset < width)
        return 0;
    for (size_t i = 0; i < width; i++)
        value = value << 8 | t->data[offset + (t->big_endian ? i : width - 1 - i)];
    return value;
}

/* The value of a directory entry, where it is a single whole number; else 0. */
static uint32_t entry_value(const tiff *t, size_t entry)
{
    if (number(t, entry + 4, 4) != 1)
        return 0;
    switch (number(t, entry + 2, 2)) {
    case TYPE_BYTE: return number(t, entry + 8, 1);
    case TYPE_SHORT: return number(t, entry + 8, 2);
    case TYPE_LONG: return number(t, entry + 8, 4);
    default: return 0;
    }
}

int fc_exif_orientation(const uint8_t *data, size_t bytes)
{
    if (bytes < 8 || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return 1;
    const tiff t = { data, bytes, data[0] == 'M' };
    const size_t directory = number(&t, 4, 4);
    const size_t count = number(&t, directory, 2);
    for (size_t i = 0; i < count; i++) {
        const size_t entry = directory + 2 + i * ENTRY_BYTES;
        if (number(&t, entry, 2) != TAG_ORIENTATION)
            continue;
        const uint32_t value = entry_value(&t, entry);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
