/* How every command prints help and explains failures. */
#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int fc_print_help(const char *text)
{
    fputs(text, stdout);
    return fc_finish_stdout("help", FC_EXIT_OK);
}

int fc_complain(const char *command, fc_exit code, const char *message)
{
    fprintf(stderr, "flatclip %s: %s\n", command, message);
    return code;
}

void fc_complain_input(const char *path, const char *reason)
{
    char line[4352]; /* PATH_MAX and more */

    /* A name that breaks lines could forge messages. */
    snprintf(line, sizeof line, "%s", path);
    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
    fprintf(stderr, "%s: %s\n", line, reason);
}

int fc_complain_usage(const char *command, const char *message)
{
    fprintf(stderr, "flatclip %s: %s\nTry `flatclip %s --help`.\n", command, message, command);
    return FC_EXIT_USAGE;
}

int fc_complain_error(const char *command, const flatclip_error *err)
{
    return fc_complain(command, FC_EXIT_UNUSABLE, err->message);
}

int fc_finish_stdout(const char *command, int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno != EPIPE)
        fprintf(stderr, "flatclip %s: standard output: %s\n", command,
                errno ? strerror(errno) : "cannot be written");
    return FC_EXIT_UNUSABLE;
}
