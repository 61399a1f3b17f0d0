/* Everything that may grow, read between two iterations, when no call is running. */
#ifndef STRESS_READING_H
#define STRESS_READING_H

#include <stddef.h>

typedef struct {
    size_t engine;      /* bytes that the models and sessions say they hold */
    size_t device;      /* how much of these lies on a GPU */
    size_t device_used; /* bytes in use on that GPU, by whomever; 0 on the CPU */
    size_t heap;        /* bytes in use on the heap */
    size_t blocks;      /* blocks in use on the heap; 0 where they are not counted */
    size_t descriptors; /* open files */
    size_t threads;
    size_t resident, peak; /* bytes of the process in memory, now and at most */
} stress_reading;

/* Reads all but the engine's numbers. Takes no memory. */
void stress_read_process(stress_reading *reading);

/* A number that is larger than it may be. */
typedef struct {
    const char *name;
    size_t limit, now;
} stress_growth;

/* Whether one of the numbers that must not grow by a single unit did; resident memory is none of
 * them. A thread that has been joined may still be listed for a moment: waits for that, and
 * corrects now->threads. */
int stress_has_grown(stress_reading *now, const stress_reading *limit, stress_growth *growth);

/* The larger of each number, into *limit. */
void stress_raise_limit(stress_reading *limit, const stress_reading *now);

#endif
