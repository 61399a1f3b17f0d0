/* How long work on a stream takes: many times in a row between two synchronisations, because one
 * kernel is shorter than a look at the clock. */
#ifndef GPU_CLOCK_H
#define GPU_CLOCK_H

#include "bench/gpu/gpu_parts.h"

typedef void gpu_work(void *context); /* queues something on gpu_stream */

/* Median seconds of one call of work, of five rounds of at least seconds / 5 each. NAN, and said,
 * if something fails. A rehearsal calls it once. */
double gpu_time(gpu_run *run, gpu_work *work, void *context, double seconds);

#endif
