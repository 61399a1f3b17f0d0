/* How long work on a stream takes: many times in a row between two synchronisations, because one
 * kernel is shorter than a look at the clock. */
#ifndef DEVICE_CLOCK_H
#define DEVICE_CLOCK_H

#include "flatclip.h"
#include "kernels/launch.h"

typedef struct {
    fc_cuda_stream stream;
    int once;   /* nonzero: everything is done once, to see that it can be done */
} device_clock;

typedef void device_work(fc_cuda_stream stream, void *context); /* queues something */

/* Median seconds of one call of work, of five rounds of at least seconds / 5 each. NAN, with the
 * error, if something fails. */
double device_time(const device_clock *clock, device_work *work, void *context, double seconds,
                   flatclip_error *err);

/* The same of work that is recorded, ten times, as a graph: the device's time alone, whatever the
 * host does to queue it. work runs once before. */
double device_time_recorded(const device_clock *clock, device_work *work, void *context,
                            double seconds, flatclip_error *err);

#endif
