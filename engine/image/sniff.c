/* Tells picture formats by their first bytes: names lie, and the sorry case of a format that is
 * not read deserves to hear which one it is. */
#include "flatclip.h"

#include <string.h>

typedef struct {
    const char *name;
    size_t count;
    const char *bytes;
} signature;

#define STARTS(name, bytes) { name, sizeof bytes - 1, bytes }

static const signature signatures[] = {
    STARTS("JPEG", "\xff\xd8\xff"),
    STARTS("PNG", "\x89PNG\r\n\x1a\n"),
    STARTS("GIF", "GIF87a"),
    STARTS("GIF", "GIF89a"),
    STARTS("TIFF", "II*\0"),
    STARTS("TIFF", "MM\0*"),
    STARTS("TIFF", "II+\0"),
    STARTS("TIFF", "MM\0+"),
    STARTS("JPEG 2000", "\0\0\0\x0cjP  \r\n\x87\n"),
    STARTS("JPEG 2000", "\xff\x4f\xff\x51"),
    STARTS("JPEG XL", "\0\0\0\x0cJXL \r\n\x87\n"),
    STARTS("JPEG XL", "\xff\x0a"),
    STARTS("JPEG XR", "II\xbc\x01"),
    STARTS("ICO", "\0\0\x01\0"),
    STARTS("CUR", "\0\0\x02\0"),
    STARTS("PSD", "8BPS"),
    STARTS("PDF", "%PDF-"),
    STARTS("PostScript", "%!PS"),
    STARTS("SVG", "<svg"),
    STARTS("OpenEXR", "v/1\x01"),
    STARTS("Radiance HDR", "#?RADIANCE"),
    STARTS("XCF", "gimp xcf"),
    STARTS("QOI", "qoif"),
    STARTS("DDS", "DDS "),
    STARTS("FITS", "SIMPLE  ="),
    STARTS("Fujifilm raw", "FUJIFILMCCD-RAW"),
};

static int has(const uint8_t *head, size_t bytes, size_t offset, const char *wanted, size_t count)
{
    return bytes >= offset + count && memcmp(head + offset, wanted, count) == 0;
}

/* ISO base media files: the brands after "ftyp", major and compatible, name the format. */
static const char *media_format(const uint8_t *head, size_t bytes)
{
    static const char heif[][5] = {
        "heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"
    };
    const char *found = NULL;
    if (!has(head, bytes, 4, "ftyp", 4))
        return NULL;
    for (size_t at = 8; at + 4 <= bytes; at += at == 8 ? 8 : 4) { /* 12..15 is a version */
        if (has(head, bytes, at, "avif", 4) || has(head, bytes, at, "avis", 4))
            return "AVIF";
        if (at == 8 && has(head, bytes, at, "crx ", 4))
            return "Canon raw";
        for (size_t i = 0; i < sizeof heif / sizeof *heif; i++)
            if (has(head, bytes, at, heif[i], 4))
                found = "HEIC";
    }
    return found;
}

/* "BM" alone is how many texts begin: the size of the second header must be one that exists. */
static int is_bmp(const uint8_t *head, size_t bytes)
{
    static const uint8_t sizes[] = { 12, 16, 40, 52, 56, 64, 108, 124 };
    return has(head, bytes, 0, "BM", 2) && bytes >= 18 && !head[15] && !head[16] && !head[17] &&
           memchr(sizes, head[14], sizeof sizes) != NULL;
}

/* "P1" to "P7" and white space. */
static int is_pnm(const uint8_t *head, size_t bytes)
{
    return bytes >= 3 && head[0] == 'P' && head[1] >= '1' && head[1] <= '7' &&
           memchr(" \t\r\n", head[2], 4) != NULL;
}

FLATCLIP_API const char *flatclip_image_format(const void *head, size_t bytes)
{
    if (!head)
        return NULL;
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (has(head, bytes, 0, signatures[i].bytes, signatures[i].count))
            return signatures[i].name;
    if (has(head, bytes, 0, "RIFF", 4) && has(head, bytes, 8, "WEBP", 4))
        return "WebP";
    if (is_bmp(head, bytes))
        return "BMP";
    if (is_pnm(head, bytes))
        return "PNM";
    return media_format(head, bytes < 32 ? bytes : 32);
}
