/* The chunks of a PNG file, checked and thinned out before libpng sees them.
 *
 * A PNG is a signature and a row of chunks: length, type, data, checksum. Pixels need three types
 * only: IHDR, PLTE and IDAT. Everything else (text, colour profiles, transparency, which neither
 * recipe looks at) is skipped here, whatever its size, without being kept; every checksum is
 * verified. So libpng reads a minimal PNG, takes no memory for chunks, and an error says where in
 * the file it is. */
#ifndef FC_PNG_CHUNKS_H
#define FC_PNG_CHUNKS_H

#include "engine/image/source.h"

enum { FC_PNG_GRAY = 0, FC_PNG_RGB = 2, FC_PNG_INDEX = 3, FC_PNG_GRAY_ALPHA = 4, FC_PNG_RGBA = 6 };

typedef struct {
    uint32_t width, height;
    int bit_depth, colour_type, is_interlaced;
} fc_png_header;

typedef struct {
    fc_source *source;
    flatclip_error *err;
    fc_png_header header;
    uint8_t *exif;     /* [FC_EXIF_BYTES] where eXIf goes, or NULL to skip it */
    size_t exif_bytes; /* of the first eXIf, once it has passed */
    uint8_t held[40];  /* signature and header, a chunk's head or its checksum, to hand over */
    size_t held_next, held_end;
    char type[5];       /* of the chunk that is being handed over; "" between chunks */
    uint32_t data_left; /* its data that is still to come */
    uint32_t checksum;  /* of its type and data so far */
} fc_png_chunks;

/* Reads up to the end of IHDR and fills header.
 * Errors: IO, TRUNCATED, CORRUPT (checksum, width 0), UNSUPPORTED (Apple's variant). */
flatclip_status fc_png_chunks_open(fc_png_chunks *chunks, fc_source *source, uint8_t *exif,
                                   flatclip_error *err);

/* Writes the next `bytes` bytes of the thinned out file, signature included. The checksum of a
 * chunk is verified before its last bytes are handed over. Errors: IO, TRUNCATED, CORRUPT. */
flatclip_status fc_png_chunks_read(fc_png_chunks *chunks, uint8_t *out, size_t bytes);

/* After libpng found the data wrong: reads the current chunk to its end, and returns CORRUPT if its
 * checksum shows that the file was damaged, as opposed to badly written. TRUNCATED, IO likewise. */
flatclip_status fc_png_chunks_check_rest(fc_png_chunks *chunks);

/* After the pixels: looks for an eXIf chunk in what follows, whose end may well be missing. */
void fc_png_chunks_find_exif(fc_png_chunks *chunks);

#endif
