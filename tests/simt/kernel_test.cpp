/* Running tests of kernels: what a run in the emulator and one on a GPU (tests/gpu) share. */
#include "tests/simt/kernel_test.h"

#include <stdarg.h>

Outcome outcome;
static unsigned random_state;

void fail(const char *format, ...)
{
    if (!outcome.good)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(outcome.why, sizeof outcome.why, format, arguments);
    va_end(arguments);
    outcome.good = false;
}

float uniform()
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / 8388608.0f - 1.0f;
}

void run_once(const Test &test)
{
    random_state = 1;
    outcome = Outcome();
    test.run();
}

static bool is_wanted(const char *name, int count, char **parts)
{
    for (int i = 0; i < count; i++)
        if (strstr(name, parts[i]))
            return true;
    return count == 0;
}

int run_tests(std::initializer_list<const Test *> lists, bool (*run)(const Test &), int argc,
              char **argv)
{
    int passed = 0, failed = 0;
    for (const Test *list : lists)
        for (const Test *test = list; test->name; test++)
            if (is_wanted(test->name, argc - 1, argv + 1))
                (run(*test) ? passed : failed)++;
    printf("[  PASSED  ] %d test(s).\n", passed);
    if (failed)
        printf("[  FAILED  ] %d test(s)\n", failed);
    return failed != 0;
}
