/* What the process holds on its heap, to the byte, and allocations that fail on demand. */
#ifndef STRESS_HEAP_H
#define STRESS_HEAP_H

#include <stddef.h>

/* Where the numbers come from: "interposed malloc" (every call of ours and of the libraries; the
 * bytes asked for, so that equal work gives equal numbers, which mallinfo2 with its caches, arenas
 * and rounding does not), "sanitizer" or "mallinfo2". */
const char *stress_heap_source(void);

/* Bytes in use, mapped ones included, and blocks; the latter 0 where they are not counted. */
size_t stress_heap_bytes(void);
size_t stress_heap_blocks(void);

/* Whether allocations can be made to fail here. */
int stress_heap_can_fail(void);

/* From now on n allocations succeed and then one fails, or with lasts all that follow. */
void stress_heap_fail(long n, int lasts);

/* Ends that; returns whether an allocation was made to fail. */
int stress_heap_stop_failing(void);

#endif
