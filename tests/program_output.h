/* What a program prints: for tests of whole programs. */
#ifndef PROGRAM_OUTPUT_H
#define PROGRAM_OUTPUT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <cmocka.h>

enum { TEXT = 1 << 16 };

/* Runs a shell command; what it printed to standard output is in text, cut where that is full.
 * Returns its exit code, or -1 if a signal ended it. */
static inline int run_command(const char *command, char text[TEXT])
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t got = fread(text, 1, TEXT - 1, pipe);
    text[got] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
