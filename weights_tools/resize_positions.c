/* Resampling position embeddings: the two axes of the grid have the same weights, computed once. */
#include "weights_tools/resize_positions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GRID = 4096 }; /* patches: no image that can be run is wider in pixels */

/* Keys' cubic convolution kernel with a = -1/2. */
static float kernel(float x)
{
    x = fabsf(x);
    if (x < 1)
        return (1.5f * x - 2.5f) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5f : 0;
}

/* One axis: new position i is the sum of the count[i] old ones from first[i] on, times weights. */
typedef struct {
    int taps;           /* room for the weights of one position */
    int *first, *count; /* [to_grid] */
    double *weight;     /* [to_grid, taps] */
} axis;

/* In float32, as torch does it: at a ratio like 2/3 its centres are off by some millionths of a
 * position, and so are the weights of every model that open_clip has resized. */
static void weigh(axis *along, int i, int from_grid, int to_grid)
{
    const float ratio = (float)from_grid / (float)to_grid, stretch = ratio > 1 ? ratio : 1;
    const float shrink = 1 / stretch;
    const float centre = ((float)i + 0.5f) * ratio;
    const float begin = centre - 2 * stretch + 0.5f, end = centre + 2 * stretch + 0.5f;
    const int first = begin > 0 ? (int)begin : 0;
    const int count = (end < (float)from_grid ? (int)end : from_grid) - first;
    double *weight = along->weight + (size_t)i * (size_t)along->taps, sum = 0;
    for (int k = 0; k < count; k++)
        sum += weight[k] = kernel(((float)(first + k) - centre + 0.5f) * shrink);
    for (int k = 0; k < count; k++)
        weight[k] /= sum;
    along->first[i] = first;
    along->count[i] = count;
}

/* Returns 0 without memory. The caller ends a built axis with free_axis either way. */
static int build_axis(axis *along, int from_grid, int to_grid)
{
    const size_t rows = (size_t)to_grid;
    along->taps = 4 * (from_grid / to_grid + 1) + 1; /* twice the support, and a broken one */
    along->first = malloc(rows * sizeof *along->first);
    along->count = malloc(rows * sizeof *along->count);
    along->weight = malloc(rows * (size_t)along->taps * sizeof *along->weight);
    if (!along->first || !along->count || !along->weight)
        return 0;
    for (int i = 0; i < to_grid; i++)
        weigh(along, i, from_grid, to_grid);
    return 1;
}

static void free_axis(axis *along)
{
    free(along->first);
    free(along->count);
    free(along->weight);
}

/* One number of one new position: row y, column x; from begins at that number of old position 0. */
static double blend(const axis *along, int y, int x, const float *from, int from_grid, int width)
{
    const double *row_weight = along->weight + (size_t)y * (size_t)along->taps;
    const double *column_weight = along->weight + (size_t)x * (size_t)along->taps;
    double sum = 0;
    for (int r = 0; r < along->count[y]; r++) {
        const size_t row = (size_t)(along->first[y] + r) * (size_t)from_grid;
        const float *old = from + (row + (size_t)along->first[x]) * (size_t)width;
        double row_sum = 0;
        for (int k = 0; k < along->count[x]; k++)
            row_sum += column_weight[k] * (double)old[(size_t)k * (size_t)width];
        sum += row_weight[r] * row_sum;
    }
    return sum;
}

flatclip_status fc_resize_positions(const float *from, int from_grid, float *to, int to_grid,
                                    int width, flatclip_error *err)
{
    axis along = { 0, NULL, NULL, NULL };
    if (from_grid < 1 || from_grid > MAX_GRID || to_grid < 1 || to_grid > MAX_GRID || width < 1)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "cannot resize positions of width %d from a grid of %d to one of %d: "
                       "expected a width from 1 and grids from 1 to %d", width, from_grid, to_grid,
                       MAX_GRID);
    const size_t row = (size_t)width;
    if (from_grid == to_grid) {
        memcpy(to, from, (1 + (size_t)to_grid * (size_t)to_grid) * row * sizeof *to);
        return FLATCLIP_OK;
    }
    if (!build_axis(&along, from_grid, to_grid)) {
        free_axis(&along);
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to resize positions to a grid of %d",
                       to_grid);
    }
    memcpy(to, from, row * sizeof *to);
    float *out = to + row;
    for (int y = 0; y < to_grid; y++)
        for (int x = 0; x < to_grid; x++, out += row)
            for (size_t c = 0; c < row; c++)
                out[c] = (float)blend(&along, y, x, from + row + c, from_grid, width);
    free_axis(&along);
    return FLATCLIP_OK;
}
