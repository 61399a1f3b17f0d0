/* A temporary folder with all that is in it, for the tests of the command line. */
#ifndef TEST_CLI_FOLDER_H
#define TEST_CLI_FOLDER_H

#define _XOPEN_SOURCE 700 /* nftw, mkdtemp */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline int remove_entry(const char *path, const struct stat *info, int type,
                               struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

/* Removes path and everything below, following no links. Returns 0, or not if something is left. */
static inline int remove_tree(const char *path)
{
    return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Makes a folder below $TMPDIR, else /tmp; its path is the caller's to free. NULL on failure. */
static inline char *make_tree(void)
{
    const char *base = getenv("TMPDIR");
    char path[512];

    snprintf(path, sizeof path, "%.400s/flatclip-test-XXXXXX", base ? base : "/tmp");
    return mkdtemp(path) ? strdup(path) : NULL;
}

/* A cmocka setup and its teardown: the test runs inside a new folder, so that paths are short. */
static inline int enter_folder(void **state)
{
    *state = make_tree();
    return *state && chdir(*state) == 0 ? 0 : -1;
}

static inline int leave_folder(void **state)
{
    const int failed = chdir("/") != 0 || remove_tree(*state) != 0;

    free(*state);
    return failed;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

#endif
