/* Telling UTF-8 from other bytes. */
#include "engine/base/utf8.h"

/* Table 3-7 of the Unicode standard: only the second byte has special ranges. */
size_t fc_utf8_bytes(const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    if (!bytes)
        return 0;
    const size_t length = s[0] < 0x80 ? 1
                        : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
                        : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                        : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : 0;
    if (length < 2 || length > bytes)
        return length > bytes ? 0 : length;
    const unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return length;
}
