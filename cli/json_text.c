/* JSON strings; see json_text.h for the escape. */
#include "cli/json_text.h"

static int in(unsigned char byte, unsigned char first, unsigned char last)
{
    return byte >= first && byte <= last;
}

/* Table 3-7 of the Unicode standard: only the second byte has special ranges. */
size_t fc_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf;

    if (in(s[0], 0x01, 0x7f))
        return 1;
    if (in(s[0], 0xc2, 0xdf))
        return in(s[1], low, high) ? 2 : 0;

    const size_t length = in(s[0], 0xe0, 0xef) ? 3 : in(s[0], 0xf0, 0xf4) ? 4 : 0;
    low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (length == 0 || !in(s[1], low, high))
        return 0;
    for (size_t i = 2; i < length; i++) {
        if (!in(s[i], 0x80, 0xbf))
            return 0;
    }
    return length;
}

static void put_ascii(FILE *file, char c)
{
    switch (c) {
    case '"': fputs("\\\"", file); break;
    case '\\': fputs("\\\\", file); break;
    case '\n': fputs("\\n", file); break;
    case '\r': fputs("\\r", file); break;
    case '\t': fputs("\\t", file); break;
    default:
        if ((unsigned char)c < ' ' || c == 0x7f)
            fprintf(file, "\\u%04x", (unsigned char)c);
        else
            putc(c, file);
    }
}

void fc_json_text(FILE *file, const char *text)
{
    putc('"', file);
    while (*text) {
        const size_t length = fc_utf8_length(text);
        if (length == 0)
            fprintf(file, "\\udc%02x", (unsigned char)*text);
        else if (length == 1)
            put_ascii(file, *text);
        else
            fwrite(text, 1, length, file);
        text += length ? length : 1;
    }
    putc('"', file);
}
