/* Telling UTF-8 from other bytes. */
#ifndef FC_UTF8_H
#define FC_UTF8_H

#include <stddef.h>

/* Bytes of the UTF-8 character that text, of which at most bytes may be read, begins with; 0 if it
 * begins with none, or is empty. */
size_t fc_utf8_bytes(const char *text, size_t bytes);

#endif
