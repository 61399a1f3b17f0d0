/* The commands of the program, and what they share: exit codes and ways of complaining.
 *
 * Results go to standard output, everything else to standard error. */
#ifndef FC_COMMANDS_H
#define FC_COMMANDS_H

#include "flatclip.h"

typedef enum {
    FC_EXIT_OK = 0,
    FC_EXIT_ITEMS = 1,   /* some inputs failed */
    FC_EXIT_USAGE = 2,   /* wrong command line */
    FC_EXIT_UNUSABLE = 3 /* model, device, precision or output can't be used */
} fc_exit;

/* Runs a command. argv[0] is its name; the rest are its own arguments. Returns an fc_exit. */
typedef int fc_command_fn(int argc, char **argv);

fc_command_fn fc_cmd_embed;
fc_command_fn fc_cmd_info;
fc_command_fn fc_cmd_synth;
fc_command_fn fc_cmd_convert;
fc_command_fn fc_cmd_verify;
fc_command_fn fc_cmd_fetch;

/* Prints help to standard output. Returns FC_EXIT_OK, or FC_EXIT_UNUSABLE if that fails. */
int fc_print_help(const char *text);

/* Prints "flatclip COMMAND: message" to standard error and returns code. */
int fc_complain(const char *command, fc_exit code, const char *message);

/* Prints "path: reason" to standard error, one line whatever the name holds. */
void fc_complain_input(const char *path, const char *reason);

/* fc_complain for a wrong command line: points to the command's help and returns FC_EXIT_USAGE. */
int fc_complain_usage(const char *command, const char *message);

/* The exit code for a call that failed as a whole: wrong arguments were caught before, so all else
 * means that something can't be used. */
int fc_complain_error(const char *command, const flatclip_error *err);

/* Ends results on standard output: flushes, and explains a failure except for a closed pipe, whose
 * reader has gone and wants to hear nothing. Returns code, or FC_EXIT_UNUSABLE on failure. */
int fc_finish_stdout(const char *command, int code);

#endif
