/* Whether a text is JSON, found out without taking memory. */
#ifndef FC_JSON_CHECK_H
#define FC_JSON_CHECK_H

#include <stddef.h>

typedef enum { FC_JSON_ANY_NUMBERS, FC_JSON_WHOLE_NUMBERS } fc_json_numbers;

enum {
    FC_JSON_DEPTH = 64,            /* levels of nesting; configurations have about five */
    FC_JSON_VALUES = 4 << 20,      /* a tree takes about 100 bytes for each; a model needs 3,000 */
    FC_JSON_NUMBER_BYTES = 60      /* characters of a number; cJSON reads 63 */
};

typedef struct {
    size_t byte, line;   /* where, byte from 0 and line from 1 */
    const char *what;    /* static */
} fc_json_fault;

/* Returns 1 if the bytes bytes of text are one JSON value with nothing but white space around it,
 * within the limits above, in UTF-8, and without the character U+0000, even escaped, which would
 * cut a C string. FC_JSON_WHOLE_NUMBERS admits no fraction and no exponent. Else returns 0 and
 * fills *fault. */
int fc_json_check(const char *text, size_t bytes, fc_json_numbers numbers, fc_json_fault *fault);

#endif
