/* A model of time: every multiprocessor works off its share of the blocks, and a block takes as
 * long as its tile has products, divided by the tile's efficiency. */
#include "engine/cuda/cuda_tiles.h"

/* The efficiencies are estimates, to be replaced by measurements (make gpu-check prints them): a
 * small tile reads more shared memory for each product. */
static const struct {
    int rows, columns;
    double efficiency;
} tiles[FC_TILE_COUNT] = {
    [FC_TILE_64x32] = { 64, 32, 0.45 },
    [FC_TILE_64x64] = { 64, 64, 0.65 },
    [FC_TILE_128x64] = { 128, 64, 0.80 },
    [FC_TILE_128x128] = { 128, 128, 1.00 },
};

/* What a launch costs besides its blocks, in products of one multiprocessor: about 1.3 us. */
static const double LAUNCH_COST = 2e6;
enum { LAUNCHES_PER_BLOCK = 7 };

/* Products, one after the other, of the multiprocessor with most blocks; for each step of k. */
static double cost(fc_gemm_tile tile, int rows, int columns, int multiprocessors)
{
    const int down = (rows + tiles[tile].rows - 1) / tiles[tile].rows;
    const int across = (columns + tiles[tile].columns - 1) / tiles[tile].columns;
    const int share = (down * across + multiprocessors - 1) / multiprocessors;
    return share * (double)tiles[tile].rows * tiles[tile].columns / tiles[tile].efficiency;
}

fc_gemm_tile fc_cuda_tile(int rows, int columns, int multiprocessors)
{
    fc_gemm_tile best = 0;
    for (fc_gemm_tile tile = 1; tile < FC_TILE_COUNT; tile++)
        if (cost(tile, rows, columns, multiprocessors) < cost(best, rows, columns, multiprocessors))
            best = tile;
    return best;
}

static double linear_cost(const fc_linear *w, int rows, int multiprocessors)
{
    return w->in * cost(fc_cuda_tile(rows, w->out, multiprocessors), rows, w->out, multiprocessors);
}

static double cost_per_image(const fc_tower *tower, int multiprocessors, int batch)
{
    const fc_block *w = &tower->block[0];
    const int rows = batch * tower->seq;
    return (linear_cost(&w->qkv, rows, multiprocessors) +
            linear_cost(&w->out, rows, multiprocessors) +
            linear_cost(&w->fc1, rows, multiprocessors) +
            linear_cost(&w->fc2, rows, multiprocessors) + LAUNCHES_PER_BLOCK * LAUNCH_COST) / batch;
}

int fc_cuda_best_batch(const fc_tower *tower, int multiprocessors, int most)
{
    int best = most;
    double least = cost_per_image(tower, multiprocessors, most);
    for (int batch = most - 1; batch > 0; batch--) {
        const double now = cost_per_image(tower, multiprocessors, batch);
        if (now < least) {
            least = now;
            best = batch;
        }
    }
    return best;
}

int fc_cuda_buckets(int most, int sizes[FC_CUDA_BUCKETS])
{
    int count = 0;
    for (int power = 1; power < most; power *= 2) {
        sizes[count++] = power;
        if (power > 1 && power * 3 / 2 < most)
            sizes[count++] = power * 3 / 2;
    }
    sizes[count++] = most;
    return count;
}
