/* Text as JSON, such that any file name survives the round trip.
 *
 * Valid UTF-8 stays as it is. A byte 0xNN that is part of no valid UTF-8 becomes the lone surrogate
 * \udcNN, as Python's "surrogateescape" has it: os.fsencode(json.loads(line)["path"]) is the name
 * again, byte for byte. No valid UTF-8 contains surrogates, so nothing else looks like that. */
#ifndef FC_JSON_TEXT_H
#define FC_JSON_TEXT_H

#include <stdio.h>

/* Writes text as a JSON string, quotes included. Failures stick to file, as stdio's do. */
void fc_json_text(FILE *file, const char *text);

#endif
