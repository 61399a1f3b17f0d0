/* What a decoder says about a picture before it delivers the rows. */
#ifndef FC_PICTURE_H
#define FC_PICTURE_H

#include <stdint.h>

/* One pixel of a row, in 8-bit interleaved bands. */
typedef enum {
    FC_PIXEL_GRAY,
    FC_PIXEL_GRAY_ALPHA,
    FC_PIXEL_RGB,
    FC_PIXEL_RGBA,
    FC_PIXEL_CMYK_INVERTED, /* 255 is no ink, as in every CMYK JPEG that is in use */
    FC_PIXEL_INDEX          /* into the palette */
} fc_pixel_kind;

typedef struct {
    int32_t width, height; /* as stored, before any rotation; at least 1 */
    fc_pixel_kind kind;
    int is_bilevel;  /* grey of one bit: Pillow resizes it by nearest neighbour */
    int orientation; /* EXIF's 1..8; 1 where there is none or it is to be ignored */
    uint8_t palette[256][3];
} fc_picture;

#endif
