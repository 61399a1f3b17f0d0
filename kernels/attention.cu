/* Attention for short sequences: all keys and values of a head fit into one tile.
 *
 * One block a head and image, one warp for 16 queries. Scores, softmax and its sums stay in
 * registers; the accumulators of the first product are, as they lie, the left side of the second
 * (FlashAttention-2, Dao 2023, without its online part, which one tile does not need).
 *
 *     shared memory: q [16 warps, 64], k and v [tokens padded to KEYS, 64], 16-bit numbers;
 *     chunk c (8 numbers) of row r lies at place c ^ r % 8, so that neither copies nor loads of
 *     matrices meet in a bank. */
#include "kernels/device/device.cuh"
#include "kernels/launch.h"

constexpr int HEAD = FC_CUDA_HEAD_DIM, CHUNKS = HEAD / 8;

DEVICE int chunk_at(int row, int chunk) { return row * HEAD + (chunk ^ row % 8) * 8; }

/* Copies rows of a head into shared memory; rows from count to padded become zero. */
template <class T>
DEVICE void load_head(T *to, const T *from, size_t stride, int count, int padded)
{
    for (int i = (int)threadIdx.x; i < padded * CHUNKS; i += (int)blockDim.x) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        const bool present = row < count;
        copy_async(to + chunk_at(row, chunk),
                   from + (size_t)(present ? row : 0) * stride + (size_t)(chunk * 8), present);
    }
}

/* The larger, and the sum, of what the four lanes that share a row hold. */
DEVICE float row_max(float value)
{
    value = fmaxf(value, shuffle_xor(value, 1));
    return fmaxf(value, shuffle_xor(value, 2));
}
DEVICE float row_sum(float value)
{
    value = add(value, shuffle_xor(value, 1));
    return add(value, shuffle_xor(value, 2));
}

template <int KEYS> struct score_tile {
    /* s[j][e] is that of row lane / 4 + e / 2 * 8 and key 8 j + lane % 4 * 2 + e % 2. */
    float s[KEYS / 8][4];
};

template <int KEYS, class T>
DEVICE void compute_scores(score_tile<KEYS> &tile, const T *q, const T *k)
{
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            tile.s[j][e] = 0.0f;
#pragma unroll
    for (int d = 0; d < HEAD / 16; d++) {
        uint32_t a[4];
        load_matrices(a, q + chunk_at(warp() * 16 + lane() % 16, 2 * d + lane() / 16));
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            uint32_t b[4];
            load_matrices(b, k + chunk_at(j * 16 + lane() % 8 + lane() / 16 * 8,
                                          2 * d + lane() / 8 % 2));
            multiply_add(tile.s[2 * j], a, b[0], b[1], T());
            multiply_add(tile.s[2 * j + 1], a, b[2], b[3], T());
        }
    }
}

/* Turns scores into weights without their common divisor, which it leaves in sum: for the rows
 * lane / 4 and lane / 4 + 8. Keys that do not count weigh exactly 0. */
template <int KEYS>
DEVICE void softmax(score_tile<KEYS> &tile, float (&sum)[2], int tokens, bool causal)
{
    float most[2] = { -INFINITY, -INFINITY };
    sum[0] = sum[1] = 0.0f;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int key = j * 8 + lane() % 4 * 2 + e % 2;
            const int query = warp() * 16 + lane() / 4 + e / 2 * 8;
            const bool counts = key < tokens && !(causal && key > query);
            tile.s[j][e] = counts ? multiply(tile.s[j][e], 0.125f) : -INFINITY;
            most[e / 2] = fmaxf(most[e / 2], tile.s[j][e]);
        }
#pragma unroll
    for (int r = 0; r < 2; r++)
        most[r] = row_max(most[r]); /* key 0 counts for every query, so it is finite */
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            tile.s[j][e] = fast_exp(tile.s[j][e] - most[e / 2]);
            sum[e / 2] = add(sum[e / 2], tile.s[j][e]);
        }
#pragma unroll
    for (int r = 0; r < 2; r++)
        sum[r] = row_sum(sum[r]);
}

template <int KEYS, class T>
DEVICE void weigh_values(float (&out)[CHUNKS][4], const score_tile<KEYS> &tile, const T *v)
{
#pragma unroll
    for (int j = 0; j < CHUNKS; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            out[j][e] = 0.0f;
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
        const float(&low)[4] = tile.s[2 * k], (&high)[4] = tile.s[2 * k + 1];
        const uint32_t a[4] = { pack<T>(low[0], low[1]), pack<T>(low[2], low[3]),
                                pack<T>(high[0], high[1]), pack<T>(high[2], high[3]) };
#pragma unroll
        for (int j = 0; j < HEAD / 16; j++) {
            uint32_t b[4];
            load_matrices_transposed(b, v + chunk_at(k * 16 + lane() % 16, 2 * j + lane() / 16));
            multiply_add(out[2 * j], a, b[0], b[1], T());
            multiply_add(out[2 * j + 1], a, b[2], b[3], T());
        }
    }
}

template <int KEYS, class T>
KERNEL(160, 2)
attention_kernel(const T *q, size_t q_stride, const T *k, const T *v, size_t kv_stride, T *out,
                 size_t out_stride, int queries, int tokens, int causal)
{
    const int rows = (int)blockDim.x / 2, head = (int)blockIdx.x; /* 16 queries a warp */
    SHARED_BEGIN;
    SHARED(T, shared_q, (size_t)rows * HEAD);
    SHARED(T, shared_k, KEYS * HEAD);
    SHARED(T, shared_v, KEYS * HEAD);
    const size_t first_query = (size_t)blockIdx.y * (size_t)queries;
    const size_t keys = (size_t)blockIdx.y * (size_t)tokens * kv_stride + (size_t)(head * HEAD);
    load_head(shared_q, q + first_query * q_stride + (size_t)(head * HEAD), q_stride, queries,
              rows);
    load_head(shared_k, k + keys, kv_stride, tokens, KEYS);
    load_head(shared_v, v + keys, kv_stride, tokens, KEYS); /* zeros: 0 weight times NaN is NaN */
    copy_commit();
    copy_wait<0>();
    __syncthreads();

    score_tile<KEYS> tile;
    float sum[2], values[CHUNKS][4];
    compute_scores(tile, shared_q, shared_k);
    softmax(tile, sum, tokens, causal != 0);
    weigh_values(values, tile, shared_v);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int query = warp() * 16 + lane() / 4 + r * 8;
        if (query >= queries)
            continue;
        T *to = out + (first_query + (size_t)query) * out_stride +
                (size_t)(head * HEAD + lane() % 4 * 2);
        const float scale = fast_divide(1.0f, sum[r]);
#pragma unroll
        for (int j = 0; j < CHUNKS; j++)
            *(uint32_t *)(to + j * 8) = pack<T>(multiply(values[j][2 * r], scale),
                                                multiply(values[j][2 * r + 1], scale));
    }
}

/* -- float32 ---------------------------------------------------------------------------------- */

constexpr int F32_WARPS = 4, F32_KEY = HEAD + 1, MAX_TOKENS = FC_CUDA_MAX_TOKENS;

/* One warp a query at a time, on CUDA cores; a lane has every 32nd key, then two columns. */
KERNEL(F32_WARPS *WARP, 2)
attention_f32_kernel(const float *q, size_t q_stride, const float *k, const float *v,
                     size_t kv_stride, float *out, size_t out_stride, int queries, int tokens,
                     int causal)
{
    SHARED_BEGIN;
    SHARED(float, shared_k, MAX_TOKENS * F32_KEY);
    SHARED(float, shared_v, MAX_TOKENS * HEAD);
    SHARED(float, shared_q, F32_WARPS * HEAD);
    SHARED(float, weights, F32_WARPS * MAX_TOKENS);
    const int head = (int)blockIdx.x;
    const size_t first_query = (size_t)blockIdx.y * (size_t)queries;
    const size_t keys = (size_t)blockIdx.y * (size_t)tokens * kv_stride + (size_t)(head * HEAD);
    for (int i = (int)threadIdx.x; i < tokens * HEAD; i += F32_WARPS * WARP) {
        const size_t from = keys + (size_t)(i / HEAD) * kv_stride + (size_t)(i % HEAD);
        shared_k[i / HEAD * F32_KEY + i % HEAD] = k[from];
        shared_v[i] = v[from];
    }
    __syncthreads();

    float *my_q = shared_q + warp() * HEAD, *my_weights = weights + warp() * MAX_TOKENS;
    for (int query = warp(); query < queries; query += F32_WARPS) {
        const size_t row = first_query + (size_t)query;
        const int last = causal ? query + 1 : tokens;
        for (int d = lane(); d < HEAD; d += WARP)
            my_q[d] = q[row * q_stride + (size_t)(head * HEAD + d)];
        __syncwarp(); /* nobody reads the weights of the query before any more, either */
        float most = -INFINITY, sum = 0.0f;
        for (int key = lane(); key < last; key += WARP) {
            float score = 0.0f;
            for (int d = 0; d < HEAD; d++)
                score = multiply_then_add(my_q[d], shared_k[key * F32_KEY + d], score);
            my_weights[key] = multiply(score, 0.125f);
            most = fmaxf(most, my_weights[key]);
        }
        for (int distance = WARP / 2; distance; distance /= 2)
            most = fmaxf(most, shuffle_xor(most, distance));
        for (int key = lane(); key < last; key += WARP) {
            my_weights[key] = expf(my_weights[key] - most);
            sum = add(sum, my_weights[key]);
        }
        sum = warp_sum(sum);
        __syncwarp();
        for (int d = lane(); d < HEAD; d += WARP) {
            float value = 0.0f;
            for (int key = 0; key < last; key++)
                value = multiply_then_add(my_weights[key], shared_v[key * HEAD + d], value);
            out[row * out_stride + (size_t)(head * HEAD + d)] = fast_divide(value, sum);
        }
    }
}

/* -- Launchers -------------------------------------------------------------------------------- */

template <int KEYS, class T>
static void launch_keys(fc_cuda_stream stream, const fc_cuda_attention *a)
{
    const int warps = (a->queries + 15) / 16;
    const size_t shared_bytes = sizeof(T) * HEAD * (size_t)(16 * warps + 2 * KEYS);
    const T *q = (const T *)a->q, *k = (const T *)a->k, *v = (const T *)a->v;
    T *out = (T *)a->out;
    const size_t q_stride = a->q_stride, kv_stride = a->kv_stride, out_stride = a->out_stride;
    const int queries = a->queries, tokens = a->tokens, causal = a->causal;
    LAUNCH((attention_kernel<KEYS, T>), dim3((unsigned)a->heads, (unsigned)a->batch),
           dim3((unsigned)(warps * WARP)), shared_bytes, stream, q, q_stride, k, v, kv_stride, out,
           out_stride, queries, tokens, causal);
}

template <class T> static void launch_number(fc_cuda_stream stream, const fc_cuda_attention *a)
{
    if (a->tokens <= 64)
        launch_keys<64, T>(stream, a);
    else
        launch_keys<MAX_TOKENS, T>(stream, a);
}

static void launch_f32(fc_cuda_stream stream, const fc_cuda_attention *a)
{
    const size_t shared_bytes =
        sizeof(float) * (MAX_TOKENS * (F32_KEY + HEAD) +
                         F32_WARPS * (HEAD + MAX_TOKENS)) + 4 * 128;
    const float *q = (const float *)a->q, *k = (const float *)a->k, *v = (const float *)a->v;
    float *out = (float *)a->out;
    const size_t q_stride = a->q_stride, kv_stride = a->kv_stride, out_stride = a->out_stride;
    const int queries = a->queries, tokens = a->tokens, causal = a->causal;
    LAUNCH(attention_f32_kernel, dim3((unsigned)a->heads, (unsigned)a->batch),
           dim3(F32_WARPS * WARP), shared_bytes, stream, q, q_stride, k, v, kv_stride, out,
           out_stride, queries, tokens, causal);
}

extern "C" void fc_launch_attention(fc_cuda_stream stream, const fc_cuda_attention *attention)
{
    switch (attention->number) {
    case FC_NUMBER_F32: launch_f32(stream, attention); break;
    case FC_NUMBER_BF16: launch_number<bf16>(stream, attention); break;
    case FC_NUMBER_F16: launch_number<f16>(stream, attention); break;
    }
}
