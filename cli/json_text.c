/* JSON strings; see json_text.h for the escape. */
#include "cli/json_text.h"

#include <string.h>

#include "engine/base/utf8.h"

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
    for (size_t left = strlen(text); left;) {
        const size_t length = fc_utf8_bytes(text, left);
        if (length == 0)
            fprintf(file, "\\udc%02x", (unsigned char)*text);
        else if (length == 1)
            put_ascii(file, *text);
        else
            fwrite(text, 1, length, file);
        text += length ? length : 1;
        left -= length ? length : 1;
    }
    putc('"', file);
}
