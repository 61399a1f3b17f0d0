/* Pillow's resampling weights, to the bit. Every expression below keeps its order of operations and
 * its types (a float here, a truncation there), because the last bit of a weight can be seen. */
#include "engine/image/windows.h"

#include <math.h>
#include <string.h>

#define BICUBIC_SUPPORT 2.0

/* Columns beyond which NEAREST positions are computed one by one, not summed up: Pillow, which
 * sums, would need tens of gigabytes for such a picture, and summing would take seconds. */
#define MAX_SUMMED_POSITIONS ((int64_t)1 << 27)

static double bicubic(double x)
{
    const double a = -0.5;
    if (x < 0.0)
        x = -x;
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

/* Pillow holds the source box in floats, which shows beyond 2^24 pixels. */
static double axis_scale(const fc_axis *axis)
{
    return (double)(float)axis->in / (double)axis->out;
}

int fc_window_room(double scale)
{
    const double support = BICUBIC_SUPPORT * (scale < 1.0 ? 1.0 : scale);
    const int taps = (int)ceil(support) * 2 + 1;
    return (taps + FC_WEIGHT_GROUP - 1) / FC_WEIGHT_GROUP * FC_WEIGHT_GROUP;
}

static int32_t fixed_point(double weight)
{
    const double scaled = weight * (1 << FC_WEIGHT_BITS);
    return (int32_t)(weight < 0 ? -0.5 + scaled : 0.5 + scaled);
}

/* The weights of one window: sampled, normalised to a sum of one, made fixed point. */
static void fill_window(int32_t *weight, int room, int32_t begin, int length, double center,
                        double step, double *filter)
{
    double sum = 0.0;
    for (int i = 0; i < length; i++) {
        filter[i] = bicubic((i + begin - center + 0.5) * step);
        sum += filter[i];
    }
    for (int i = 0; i < length; i++)
        weight[i] = fixed_point(sum != 0.0 ? filter[i] / sum : filter[i]);
    memset(weight + length, 0, (size_t)(room - length) * sizeof *weight);
}

void fc_windows_bicubic(fc_windows *windows, const fc_axis *axis, double *filter)
{
    const double scale = axis_scale(axis);
    const double filter_scale = scale < 1.0 ? 1.0 : scale;
    const double support = BICUBIC_SUPPORT * filter_scale;
    const double step = 1.0 / filter_scale;

    windows->room = fc_window_room(scale);
    for (int i = 0; i < windows->count; i++) {
        const double center = ((double)(axis->first + i) + 0.5) * scale;
        int64_t begin = (int64_t)(center - support + 0.5);
        int64_t end = (int64_t)(center + support + 0.5);
        if (begin < 0)
            begin = 0;
        if (end > axis->in)
            end = axis->in;
        windows->begin[i] = (int32_t)begin;
        windows->length[i] = (int32_t)(end - begin);
        fill_window(windows->weight + (size_t)i * windows->room, windows->room, windows->begin[i],
                    windows->length[i], center, step, filter);
    }
}

/* Where output number `index` lies: Pillow adds up the step from the first output on, crop or no
 * crop, and the rounding of the sum decides between two neighbours. */
static double nearest_position(double scale, int64_t index)
{
    double at = scale * 0.5;
    if (index > MAX_SUMMED_POSITIONS)
        return at + (double)index * scale;
    for (int64_t i = 0; i < index; i++)
        at += scale;
    return at;
}

void fc_windows_nearest(fc_windows *windows, const fc_axis *axis)
{
    const double scale = axis_scale(axis);
    double at = nearest_position(scale, axis->first);

    windows->room = FC_WEIGHT_GROUP;
    memset(windows->weight, 0, (size_t)windows->count * FC_WEIGHT_GROUP * sizeof *windows->weight);
    for (int i = 0; i < windows->count; i++, at += scale) {
        windows->begin[i] = at < axis->in ? (int32_t)at : axis->in - 1;
        windows->length[i] = 1;
        windows->weight[(size_t)i * FC_WEIGHT_GROUP] = 1 << FC_WEIGHT_BITS;
    }
}

static void swap(int32_t *a, int32_t *b)
{
    const int32_t kept = *a;
    *a = *b;
    *b = kept;
}

static void reverse(int32_t *values, int count)
{
    for (int i = 0, j = count - 1; i < j; i++, j--)
        swap(values + i, values + j);
}

void fc_windows_mirror(fc_windows *windows, int32_t in)
{
    for (int i = 0; i < windows->count; i++) {
        windows->begin[i] = in - (windows->begin[i] + windows->length[i]);
        reverse(windows->weight + (size_t)i * windows->room, windows->length[i]);
    }
}

void fc_windows_reverse(fc_windows *windows)
{
    reverse(windows->begin, windows->count);
    reverse(windows->length, windows->count);
    for (int i = 0, j = windows->count - 1; i < j; i++, j--)
        for (int k = 0; k < windows->room; k++)
            swap(windows->weight + (size_t)i * windows->room + k,
                 windows->weight + (size_t)j * windows->room + k);
}

int fc_windows_overlap(const fc_windows *windows)
{
    int most = 0;
    for (int first = 0, i = 0; i < windows->count; i++) {
        while (windows->begin[first] + windows->length[first] <= windows->begin[i])
            first++;
        if (i - first + 1 > most)
            most = i - first + 1;
    }
    return most;
}
