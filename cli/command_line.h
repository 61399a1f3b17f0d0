/* Reads a command line: options one by one, in any order among the arguments.
 *
 * `--name value`, `--name=value`, `-x value`, `-xvalue`; `--` ends the options; `-` alone is an
 * argument. Unknown names get a suggestion, options of later versions a word about it. */
#ifndef FC_COMMAND_LINE_H
#define FC_COMMAND_LINE_H

#include "flatclip.h"

typedef enum {
    FC_OPTION_FLAG = 0,
    FC_OPTION_VALUE = 1,
    FC_OPTION_LATER = 2 /* known, but not in this version */
} fc_option_kind;

typedef struct {
    const char *name;    /* without the dashes */
    char letter;         /* short form, or 0 */
    fc_option_kind kind;
    const char *expects; /* what the value is, for messages: "a number of images, 1 to 1024" */
} fc_option;

typedef struct {
    const fc_option *options;
    int option_count;
    int argc;
    char **argv;
    int next;            /* index in argv of what comes next; start at 1 */
    int arguments_only;  /* nonzero after "--" */
    const char *value;   /* of the option that was read, or the argument */
} fc_option_reader;

enum { FC_OPTION_END = -1, FC_OPTION_ARGUMENT = -2, FC_OPTION_ERROR = -3 };

/* Reads on. Returns the index of an option, FC_OPTION_ARGUMENT (value is it), FC_OPTION_END, or
 * FC_OPTION_ERROR and explains it in *err. */
int fc_option_next(fc_option_reader *reader, flatclip_error *err);

/* Turns value into a number between min and max, digits only. option and expects stand in the
 * message. Errors: ARGUMENT. */
flatclip_status fc_option_number(const fc_option *option, const char *value, uint64_t min,
                                 uint64_t max, uint64_t *number, flatclip_error *err);

typedef struct {
    const char *word;
    int value;
} fc_word;

/* Looks value up among count words. Errors: ARGUMENT (names the option, suggests the nearest). */
flatclip_status fc_option_word(const fc_option *option, const char *value, const fc_word *words,
                               size_t count, int *found, flatclip_error *err);

#endif
