/* The slope of resident memory; see stress_trend.h for why it is fitted so. */
#include "bench/stress/stress_trend.h"

#include <stdlib.h>
#include <string.h>

/* Growth that is less than this over the whole run is none: the kernel counts pages by CPU and adds
 * them up now and then, and heaps touch a page more at every new record. */
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

static int order_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

stress_slope stress_trend_fit(stress_trend *trend)
{
    enum { STEPS = STRESS_STRETCHES - 1, RANK = 3 }; /* P(3 or fewer of 24 coins) is 0.014 % */
    stress_slope fit = { 0 };
    double median[STRESS_STRETCHES], step[STEPS];
    const long length = trend->count / STRESS_STRETCHES; /* samples in a stretch; a rest first */
    const long first = trend->count - length * STRESS_STRETCHES;
    if (trend->count < STRESS_TREND_LEAST)
        return fit;
    for (int i = 0; i < STRESS_STRETCHES; i++)
        median[i] = median_of(trend->samples + first + i * length, length);
    for (int i = 0; i < STEPS; i++)
        step[i] = median[i + 1] - median[i];
    qsort(step, STEPS, sizeof *step, order_doubles);
    const double iterations = (double)(length * trend->stride);
    fit.known = 1;
    fit.slope = (step[STEPS / 2 - 1] + step[STEPS / 2]) / 2 / iterations;
    fit.low = step[RANK] / iterations;
    fit.high = step[STEPS - 1 - RANK] / iterations;
    fit.grows = step[RANK] * STEPS >= least_rise;
    return fit;
}
