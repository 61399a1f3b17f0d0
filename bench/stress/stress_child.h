/* Runs the command line that lies beside this program, in a folder of its own. */
#ifndef STRESS_CHILD_H
#define STRESS_CHILD_H

#include <sys/types.h>

enum { STRESS_CHILD_HANGS = -1, STRESS_CHILD_CRASHED = -2 };

typedef struct {
    char program[1024]; /* flatclip; "" if there is none */
    char folder[1024];  /* for what it writes; "" if there is none */
} stress_child_place;

/* Finds the program and makes the folder. Returns 0 if there is no program or no folder. */
int stress_child_open(stress_child_place *place);

/* Removes the folder with all that is in it. */
void stress_child_close(const stress_child_place *place);

/* How many files are in the folder; removes them if remove is not 0. */
int stress_child_files(const stress_child_place *place, int remove);

typedef struct {
    const char *standard_output; /* a path, or NULL for /dev/null */
    long file_limit;             /* bytes of a file (RLIMIT_FSIZE), or -1 */
    int input;                   /* descriptor for its standard input, or -1 */
} stress_child_setting;

/* Starts it with arguments (NULL at the end); returns its process, or -1. */
pid_t stress_child_start(const stress_child_place *place, const stress_child_setting *setting,
                         const char *const *arguments);

/* Waits; returns its exit code, STRESS_CHILD_CRASHED if a signal ended it (but for SIGKILL: 137),
 * or STRESS_CHILD_HANGS after a minute, and ends it then. */
int stress_child_wait(pid_t pid);

#endif
