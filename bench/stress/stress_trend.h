/* Whether resident memory grows, told from its noise.
 *
 * Resident memory moves in steps: a heap gets its second part when two large pictures meet, and
 * keeps it. A straight line through such numbers has a slope that "differs from zero" for every
 * single step, because neighbours resemble each other; and one step of 10 MB widens an interval
 * around a mean until no leak is found. So the run is cut into 25 stretches, each represented by
 * its median, and the slope is the median of the 24 differences between neighbours, with the sign
 * test's interval: from the 4th smallest to the 4th largest, 99.9 % and more whatever the
 * distribution, if differences rise and fall by chance. A few steps, of any size, leave most
 * differences at nothing. A leak is in all of them. */
#ifndef STRESS_TREND_H
#define STRESS_TREND_H

#include <stddef.h>

enum { STRESS_STRETCHES = 25, STRESS_TREND_LEAST = 4 * STRESS_STRETCHES };

typedef struct {
    size_t *samples;
    long capacity, count;
    long stride; /* iterations from one sample to the next: doubles when the room is full */
    long seen;   /* iterations */
} stress_trend;

typedef struct {
    int known;              /* 0: fewer than STRESS_TREND_LEAST samples */
    int grows;              /* the whole interval lies above zero, and is no rounding */
    double slope, low, high; /* bytes an iteration */
} stress_slope;

/* Takes room for capacity samples (an even number, at least 2 * STRESS_TREND_LEAST), and touches
 * it. Returns 0 if there is no memory. */
int stress_trend_open(stress_trend *trend, long capacity);
void stress_trend_close(stress_trend *trend);

/* One iteration's resident bytes. Takes no memory. */
void stress_trend_add(stress_trend *trend, size_t resident);

/* Reorders the samples: for the end of a run. */
stress_slope stress_trend_fit(stress_trend *trend);

#endif
