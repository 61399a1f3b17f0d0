/* The one fact of EXIF that matters here: which way up a picture is. */
#ifndef FC_EXIF_H
#define FC_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Room for the EXIF of a picture. A JPEG's cannot be longer; of a PNG's longer one only so much is
 * looked at, and the orientation stands at its beginning. */
#define FC_EXIF_BYTES 65536

/* The orientation, 1 to 8, in a TIFF structure ("II*" or "MM*" and on); 1 where it has none or
 * makes no sense, for a picture must not fail over it. */
int fc_exif_orientation(const uint8_t *tiff, size_t bytes);

#endif
