/* The matrix product out = epilogue(x W^T) on tensor cores.
 *
 * A block computes a tile of ROWS x COLUMNS. Stages of 32 columns of K of both sides are copied
 * into shared memory ahead of their use; warps load them as matrices and multiply.
 *
 *              K                       shared memory, one stage of one side:
 *           +-----+                    a row is 64 bytes, four chunks of 8 numbers;
 *      x  M |     |                    chunk c of row r lies at place c ^ (r / 2 % 4):
 *           +-----+                    eight rows read or written at once then lie in
 *        +-----+                       eight different groups of banks.
 *     W  |     | N
 *        +-----+
 *
 * K is summed in ascending steps of 16 into one float32 accumulator an element, whatever the tile:
 * every tile gives the same bits. */
#ifndef FC_PRODUCT_CUH
#define FC_PRODUCT_CUH

#include "kernels/device/device.cuh"

constexpr int K_STAGE = 32, STAGES = 3;

/* Blocks on a multiprocessor. Copies that are not asynchronous need more registers. */
constexpr int PRODUCT_BLOCKS = COPIES_ARE_ASYNC ? 2 : 1;

/* A tile, and how many warps share it along each side. */
template <int ROWS_, int COLUMNS_, int WARPS_M_, int WARPS_N_> struct tile_shape {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, WARPS_M = WARPS_M_, WARPS_N = WARPS_N_;
    static constexpr int THREADS = WARP * WARPS_M * WARPS_N;
    static constexpr int M = ROWS / WARPS_M / 16;    /* matrices of 16 rows that a warp holds */
    static constexpr int N = COLUMNS / WARPS_N / 16; /* and pairs of matrices of 8 columns */
    static constexpr int SHARED_BYTES = STAGES * (ROWS + COLUMNS) * K_STAGE * 2;
};

/* The element with which chunk of row begins. */
DEVICE int chunk_at(int row, int chunk) { return row * K_STAGE + (chunk ^ (row / 2 % 4)) * 8; }

template <class Tile, class T, class Source>
DEVICE void load_stage(T *x, T *w, const Source &source, const T *weight, int m0, int n0,
                       int columns, int k0, int k)
{
    for (int i = (int)threadIdx.x; i < Tile::ROWS * 4; i += Tile::THREADS)
        source.load8(x + chunk_at(i / 4, i % 4), m0 + i / 4, k0 + i % 4 * 8);
    for (int i = (int)threadIdx.x; i < Tile::COLUMNS * 4; i += Tile::THREADS) {
        const bool present = n0 + i / 4 < columns;
        const size_t row = (size_t)(present ? n0 + i / 4 : 0);
        copy_async(w + chunk_at(i / 4, i % 4), weight + row * (size_t)k + (size_t)(k0 + i % 4 * 8),
                   present);
    }
}

/* sum += the stage's part of the warp's share of the tile. */
template <class Tile, class T>
DEVICE void multiply_stage(float (&sum)[Tile::M][2 * Tile::N][4], const T *x, const T *w,
                           int warp_m, int warp_n)
{
#pragma unroll
    for (int k = 0; k < K_STAGE / 16; k++) {
        uint32_t a[Tile::M][4], b[Tile::N][4];
#pragma unroll
        for (int i = 0; i < Tile::M; i++)
            load_matrices(a[i], x + chunk_at((warp_m * Tile::M + i) * 16 + lane() % 16,
                                             2 * k + lane() / 16));
#pragma unroll
        for (int j = 0; j < Tile::N; j++)
            load_matrices(b[j], w + chunk_at((warp_n * Tile::N + j) * 16 + lane() % 8 +
                                             lane() / 16 * 8, 2 * k + lane() / 8 % 2));
#pragma unroll
        for (int i = 0; i < Tile::M; i++)
#pragma unroll
            for (int j = 0; j < Tile::N; j++) {
                multiply_add(sum[i][2 * j], a[i], b[j][0], b[j][1], T());
                multiply_add(sum[i][2 * j + 1], a[i], b[j][2], b[j][3], T());
            }
    }
}

template <class Tile, class T, class Source, class Epilogue>
KERNEL(Tile::THREADS, PRODUCT_BLOCKS)
product_kernel(Source source, const T *weight, Epilogue epilogue, int rows, int columns, int k)
{
    SHARED_BEGIN;
    SHARED(T, x, STAGES * Tile::ROWS * K_STAGE);
    SHARED(T, w, STAGES * Tile::COLUMNS * K_STAGE);
    const int m0 = (int)blockIdx.y * Tile::ROWS, n0 = (int)blockIdx.x * Tile::COLUMNS;
    const int warp_m = warp() % Tile::WARPS_M, warp_n = warp() / Tile::WARPS_M;
    const int stages = k / K_STAGE;
    float sum[Tile::M][2 * Tile::N][4];
#pragma unroll
    for (int i = 0; i < Tile::M; i++)
#pragma unroll
        for (int j = 0; j < 2 * Tile::N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[i][j][e] = 0.0f;

    for (int s = 0; s < STAGES - 1; s++) {
        if (s < stages)
            load_stage<Tile>(x + s * Tile::ROWS * K_STAGE, w + s * Tile::COLUMNS * K_STAGE, source,
                             weight, m0, n0, columns, s * K_STAGE, k);
        copy_commit();
    }
    for (int s = 0; s < stages; s++) {
        copy_wait<STAGES - 2>();
        __syncthreads(); /* stage s is there for all, and all have left stage s - 1 */
        const int next = s + STAGES - 1, place = next % STAGES;
        if (next < stages)
            load_stage<Tile>(x + place * Tile::ROWS * K_STAGE, w + place * Tile::COLUMNS * K_STAGE,
                             source, weight, m0, n0, columns, next * K_STAGE, k);
        copy_commit();
        multiply_stage<Tile>(sum, x + s % STAGES * Tile::ROWS * K_STAGE,
                             w + s % STAGES * Tile::COLUMNS * K_STAGE, warp_m, warp_n);
    }
    copy_wait<0>();

#pragma unroll
    for (int i = 0; i < Tile::M; i++)
#pragma unroll
        for (int j = 0; j < 2 * Tile::N; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int m = m0 + (warp_m * Tile::M + i) * 16 + lane() / 4 + half * 8;
                const int n = n0 + warp_n * Tile::N * 16 + j * 8 + lane() % 4 * 2;
                if (m < rows && n < columns)
                    epilogue(m, n, sum[i][j][2 * half], sum[i][j][2 * half + 1]);
            }
}

template <class Tile, class T, class Source, class Epilogue>
static void launch_product(fc_cuda_stream stream, Source source, const T *weight,
                           Epilogue epilogue, int rows, int columns, int k)
{
    const dim3 grid((unsigned)(columns + Tile::COLUMNS - 1) / Tile::COLUMNS,
                    (unsigned)(rows + Tile::ROWS - 1) / Tile::ROWS);
    LAUNCH((product_kernel<Tile, T, Source, Epilogue>), grid, dim3(Tile::THREADS),
           Tile::SHARED_BYTES, stream, source, weight, epilogue, rows, columns, k);
}

/* -- float32 ---------------------------------------------------------------------------------- */

/* On CUDA cores: splitting float32 into parts for tensor cores costs accuracy or most of the gain.
 * 64 x 64, 16 of K at a time; a thread computes 4 x 4. */
constexpr int F32_TILE = 64, F32_STAGE = 16, F32_ROW = F32_STAGE + 1;

template <class Source, class Epilogue>
KERNEL(256, 2)
product_f32_kernel(Source source, const float *weight, Epilogue epilogue, int rows, int columns,
                   int k)
{
    SHARED_BEGIN;
    SHARED(float, x, F32_TILE * F32_ROW);
    SHARED(float, w, F32_TILE * F32_ROW);
    const int m0 = (int)blockIdx.y * F32_TILE, n0 = (int)blockIdx.x * F32_TILE;
    const int row = (int)threadIdx.x / 16 * 4, column = (int)threadIdx.x % 16 * 4;
    float sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[i][j] = 0.0f;

    for (int k0 = 0; k0 < k; k0 += F32_STAGE) {
        for (int i = (int)threadIdx.x; i < F32_TILE * F32_STAGE; i += 256) {
            const int r = i / F32_STAGE, c = i % F32_STAGE;
            x[r * F32_ROW + c] = source.value(m0 + r, k0 + c);
            w[r * F32_ROW + c] =
                n0 + r < columns ? weight[(size_t)(n0 + r) * (size_t)k + (size_t)(k0 + c)] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < F32_STAGE; c++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] = multiply_then_add(x[(row + i) * F32_ROW + c],
                                                  w[(column + j) * F32_ROW + c], sum[i][j]);
        __syncthreads(); /* before the stage is overwritten */
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j += 2)
            if (m0 + row + i < rows && n0 + column + j < columns)
                epilogue(m0 + row + i, n0 + column + j, sum[i][j], sum[i][j + 1]);
}

template <class Source, class Epilogue>
static void launch_product_f32(fc_cuda_stream stream, Source source, const float *weight,
                               Epilogue epilogue, int rows, int columns, int k)
{
    const dim3 grid((unsigned)(columns + F32_TILE - 1) / F32_TILE,
                    (unsigned)(rows + F32_TILE - 1) / F32_TILE);
    LAUNCH((product_f32_kernel<Source, Epilogue>), grid, dim3(256),
           2 * F32_TILE * F32_ROW * sizeof(float) + 128, stream, source, weight, epilogue, rows,
           columns, k);
}

#endif
