/* How long work on a stream takes: many times in a row between two synchronisations, because one
 * kernel is shorter than a look at the clock. A rehearsal does it once. */
#ifndef GPU_CLOCK_H
#define GPU_CLOCK_H

#include "bench/gpu/gpu_parts.h"

typedef void gpu_work(void *context); /* queues something on gpu_stream */

/* Median seconds of one call of work, of five rounds of at least seconds / 5 each. NAN, and said,
 * if something fails. */
double gpu_time(gpu_run *run, gpu_work *work, void *context, double seconds);

/* The same of work that is recorded, ten times, as a graph: the device's time alone, whatever the
 * host does to queue it. work runs once before. */
double gpu_time_recorded(gpu_run *run, gpu_work *work, void *context, double seconds);

#endif
