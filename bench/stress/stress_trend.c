/* The slope of resident memory; see stress_trend.h for why it is fitted so. */
#include "bench/stress/stress_trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Student's t for 23 degrees of freedom, 99.9 % two-sided. */
static const double t_value = 3.768;

/* The kernel counts pages by CPU and adds them up now and then: less than this is no growth. */
static const double least_rise = 256 << 10;

int stress_trend_open(stress_trend *trend, long capacity)
{
    *trend = (stress_trend){ malloc((size_t)capacity * sizeof(size_t)), capacity, 0, 1, 0 };
    if (trend->samples)
        memset(trend->samples, 1, (size_t)capacity * sizeof(size_t));
    return trend->samples != NULL;
}

void stress_trend_close(stress_trend *trend)
{
    free(trend->samples);
    trend->samples = NULL;
}

static void keep_every_second(stress_trend *trend)
{
    for (long i = 0; 2 * i < trend->count; i++)
        trend->samples[i] = trend->samples[2 * i];
    trend->count /= 2;
    trend->stride *= 2;
}

void stress_trend_add(stress_trend *trend, size_t resident)
{
    if (trend->seen++ % trend->stride != 0)
        return;
    if (trend->count == trend->capacity)
        keep_every_second(trend);
    if ((trend->seen - 1) % trend->stride == 0)
        trend->samples[trend->count++] = resident;
}

static int order_sizes(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static double median_of(size_t *samples, long count)
{
    qsort(samples, (size_t)count, sizeof *samples, order_sizes);
    return ((double)samples[(count - 1) / 2] + (double)samples[count / 2]) / 2;
}

stress_slope stress_trend_fit(stress_trend *trend)
{
    enum { STEPS = STRESS_STRETCHES - 1 };
    stress_slope fit = { 0 };
    double median[STRESS_STRETCHES], squares = 0;
    const long length = trend->count / STRESS_STRETCHES; /* samples in a stretch; a rest first */
    const long first = trend->count - length * STRESS_STRETCHES;
    if (trend->count < STRESS_TREND_LEAST)
        return fit;
    for (int i = 0; i < STRESS_STRETCHES; i++)
        median[i] = median_of(trend->samples + first + i * length, length);
    const double rise = median[STEPS] - median[0], mean = rise / STEPS;
    for (int i = 0; i < STEPS; i++)
        squares += pow(median[i + 1] - median[i] - mean, 2);
    const double half = t_value * sqrt(squares / (STEPS - 1) / STEPS);
    const double iterations = (double)(length * trend->stride);
    fit = (stress_slope){ 1, mean - half > 0 && rise >= least_rise, mean / iterations,
                          (mean - half) / iterations, (mean + half) / iterations };
    return fit;
}
