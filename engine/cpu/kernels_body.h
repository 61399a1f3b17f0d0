/* The CPU backend's inner loops, written once over a vector type of VL lanes.
 *
 * Included by kernels_portable.c, kernels_avx2.c and kernels_avx512.c after the header that defines
 * vec, its operations, VL and TILE_ROWS. Every reduction has one fixed tree that depends on the
 * row's length alone: that, and one accumulator per sum in ascending order, is what makes results
 * independent of batch, position and threads. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu_kernels.h"

#define PANEL (2 * VL)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* -- Vector functions -------------------------------------------------------------------------- */

/* exp(x) to about 1 ulp: x = n ln 2 + r, exp(r) by a polynomial of degree 6 fitted on
 * |r| <= ln 2 / 2 (relative error 2e-9), times 2^n. Below -87.3 the result stays at 1.2e-38, above
 * 88.3 at 2.2e38: callers need no infinities. */
ALWAYS_INLINE vec vec_exp(vec x)
{
    const vec round = vec_set(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    x = vec_min(vec_set(88.3f), vec_max(vec_set(-87.3f), x)); /* in this order NaN stays NaN */
    const vec biased = vec_fma(x, vec_set(1.44269504f), round);
    const vec n = vec_sub(biased, round);
    vec r = vec_fma(n, vec_set(-0.693359375f), x); /* ln 2 in two parts, the first exact in n * */
    r = vec_fma(n, vec_set(2.12194440e-4f), r);

    vec p = vec_set(0.0013941108434f);
    p = vec_fma(p, r, vec_set(0.00837512639815f));
    p = vec_fma(p, r, vec_set(0.0416663528968f));
    p = vec_fma(p, r, vec_set(0.166664155147f));
    p = vec_fma(p, r, vec_set(0.500000004712f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_scale_exp2(p, biased); /* the low bits of biased are n */
}

/* x * sigmoid(1.702 x): Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415 */
ALWAYS_INLINE vec vec_quick_gelu(vec x)
{
    const vec e = vec_exp(vec_mul(x, vec_set(-1.702f)));
    return vec_div(x, vec_add(vec_set(1.0f), e));
}

/* x * Phi(x) = x / 2 * (1 + erf(x / sqrt 2)). erf by two fits of our own: z * P(z^2) for |z| < 1
 * (error 1e-9), and 1 - exp(Q(z)) up to 4 (error 2e-8 of erfc), where erf rounds to 1. */
ALWAYS_INLINE vec vec_gelu(vec x)
{
    const vec zero = vec_set(0.0f), one = vec_set(1.0f);
    const vec z = vec_mul(x, vec_set(0.70710678f));
    const vec a = vec_min(vec_max(z, vec_sub(zero, z)), vec_set(4.0f));
    const vec t = vec_mul(a, a);

    vec p = vec_set(7.87587506e-5f);
    p = vec_fma(p, t, vec_set(-8.01686429e-4f));
    p = vec_fma(p, t, vec_set(5.18908742e-3f));
    p = vec_fma(p, t, vec_set(-2.68542120e-2f));
    p = vec_fma(p, t, vec_set(0.112835947f));
    p = vec_fma(p, t, vec_set(-0.376126267f));
    p = vec_fma(p, t, vec_set(1.12837917f));
    const vec small = vec_mul(a, p);

    vec q = vec_set(1.63715141e-6f);
    q = vec_fma(q, a, vec_set(-4.60580427e-5f));
    q = vec_fma(q, a, vec_set(5.96805626e-4f));
    q = vec_fma(q, a, vec_set(-4.75959629e-3f));
    q = vec_fma(q, a, vec_set(2.64211360e-2f));
    q = vec_fma(q, a, vec_set(-0.110080083f));
    q = vec_fma(q, a, vec_set(-0.631826052f));
    q = vec_fma(q, a, vec_set(-1.13023343f));
    q = vec_fma(q, a, vec_set(3.20138050e-4f));
    const vec large = vec_sub(one, vec_exp(q));

    vec erf = vec_select_less(a, one, small, large);
    erf = vec_select_less(z, zero, vec_sub(zero, erf), erf);
    return vec_mul(vec_mul(x, vec_set(0.5f)), vec_add(one, erf));
}

/* The lanes of v added in a fixed order. */
ALWAYS_INLINE float vec_sum(vec v)
{
    float lane[VL];
    vec_store(lane, v);
    for (int half = VL / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

ALWAYS_INLINE float vec_largest(vec v)
{
    float lane[VL];
    vec_store(lane, v);
    float largest = lane[0];
    for (int i = 1; i < VL; i++)
        largest = lane[i] > largest ? lane[i] : largest;
    return largest;
}

/* -- Matrix product ---------------------------------------------------------------------------- */

/* rows is a constant where this is inlined, so that the accumulators live in registers. */
ALWAYS_INLINE void tile_of(const int rows, int depth, const float *a, size_t a_stride,
                           const float *b, size_t b_stride, float *sums, const float *prefetch)
{
    vec left[TILE_ROWS], right[TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        left[r] = right[r] = vec_set(0.0f);

    for (int k = 0; k < depth; k++) {
        const vec b_left = vec_load(b), b_right = vec_load(b + VL);
        b += b_stride;
        if (prefetch)
            __builtin_prefetch(prefetch + (size_t)k * 16, 0, 2);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vec value = vec_set(a[(size_t)r * a_stride + (size_t)k]);
            left[r] = vec_fma(value, b_left, left[r]);
            right[r] = vec_fma(value, b_right, right[r]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        vec_store(sums + r * PANEL, left[r]);
        vec_store(sums + r * PANEL + VL, right[r]);
    }
}

static void tile(int rows, int depth, const float *a, size_t a_stride, const float *b,
                 size_t b_stride, float *sums, const float *prefetch)
{
    switch (rows) {
#define ROWS(n) \
    case n: tile_of(n, depth, a, a_stride, b, b_stride, sums, prefetch); break;
    ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#if TILE_ROWS > 6
    ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14)
#endif
#undef ROWS
    }
}

/* One vector of one row. epilogue is a constant where this is inlined. */
ALWAYS_INLINE vec finished(const fc_epilogue epilogue, vec sum, vec bias, vec old)
{
    switch (epilogue) {
    case FC_PLAIN: return sum;
    case FC_BIAS: return vec_add(sum, bias);
    case FC_BIAS_QUICK_GELU: return vec_quick_gelu(vec_add(sum, bias));
    case FC_BIAS_GELU: return vec_gelu(vec_add(sum, bias));
    case FC_BIAS_RESIDUAL: return vec_add(old, vec_add(sum, bias));
    }
    return sum;
}

ALWAYS_INLINE void finish_as(const fc_epilogue epilogue, int rows, int columns, const float *sums,
                             const float *bias, float *out, size_t out_stride)
{
    const vec zero = vec_set(0.0f);
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c += VL) {
            const vec sum = vec_load(sums + r * PANEL + c);
            const vec add = epilogue == FC_PLAIN ? zero : vec_load(bias + c);
            float *at = out + (size_t)r * out_stride + c;
            if (columns - c >= VL) {
                const vec old = epilogue == FC_BIAS_RESIDUAL ? vec_load(at) : zero;
                vec_store(at, finished(epilogue, sum, add, old));
            } else { /* the last columns of a width that is no multiple of VL */
                float part[VL] = { 0 };
                if (epilogue == FC_BIAS_RESIDUAL)
                    memcpy(part, at, (size_t)(columns - c) * sizeof(float));
                vec_store(part, finished(epilogue, sum, add, vec_load(part)));
                memcpy(at, part, (size_t)(columns - c) * sizeof(float));
            }
        }
    }
}

static void finish(fc_epilogue epilogue, int rows, int columns, const float *sums,
                   const float *bias, float *out, size_t out_stride)
{
    switch (epilogue) {
#define CASE(e) \
    case e: finish_as(e, rows, columns, sums, bias, out, out_stride); break;
    CASE(FC_PLAIN) CASE(FC_BIAS) CASE(FC_BIAS_QUICK_GELU) CASE(FC_BIAS_GELU) CASE(FC_BIAS_RESIDUAL)
#undef CASE
    }
}

/* -- Rows -------------------------------------------------------------------------------------- */

/* Sum of (x - shift)^power over a row, for power 1 or 2: four chains, then one tree. */
ALWAYS_INLINE float row_sum(int width, const float *x, float shift, const int power)
{
    const vec s = vec_set(shift);
    vec sum[4] = { vec_set(0.0f), vec_set(0.0f), vec_set(0.0f), vec_set(0.0f) };
    for (int i = 0; i < width; i += 4 * VL)
        for (int j = 0; j < 4; j++) {
            const vec d = vec_sub(vec_load(x + i + j * VL), s);
            sum[j] = power == 1 ? vec_add(sum[j], d) : vec_fma(d, d, sum[j]);
        }
    return vec_sum(vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3])));
}

static void layernorm(int rows, int width, const float *x, size_t x_stride, const float *gain,
                      const float *bias, float *out, size_t out_stride)
{
    for (int r = 0; r < rows; r++, x += x_stride, out += out_stride) {
        const float mean = row_sum(width, x, 0.0f, 1) / (float)width;
        const float variance = row_sum(width, x, mean, 2) / (float)width;
        const vec m = vec_set(mean), scale = vec_set(1.0f / sqrtf(variance + 1e-5f));
        for (int i = 0; i < width; i += VL) {
            const vec normed = vec_mul(vec_sub(vec_load(x + i), m), scale);
            vec_store(out + i, vec_fma(normed, vec_load(gain + i), vec_load(bias + i)));
        }
    }
}

static void softmax(int rows, int count, int padded, float scale, float *scores, size_t stride)
{
    for (int r = 0; r < rows; r++, scores += stride) {
        for (int i = count; i < padded; i++)
            scores[i] = -INFINITY;
        vec top = vec_load(scores);
        for (int i = VL; i < padded; i += VL)
            top = vec_max(top, vec_load(scores + i));
        const vec largest = vec_set(vec_largest(top)), s = vec_set(scale);

        vec sum = vec_set(0.0f);
        for (int i = 0; i < padded; i += VL) {
            const vec e = vec_exp(vec_mul(vec_sub(vec_load(scores + i), largest), s));
            vec_store(scores + i, e);
            for (int j = count - i; j < VL; j++) /* exp stops above 0: take the padding out */
                scores[i + (j > 0 ? j : 0)] = 0.0f;
            sum = vec_add(sum, vec_load(scores + i));
        }
        const vec inverse = vec_set(1.0f / vec_sum(sum));
        for (int i = 0; i < padded; i += VL)
            vec_store(scores + i, vec_mul(vec_load(scores + i), inverse));
    }
}

static void unit_row(int width, const float *x, float *out)
{
    float chain[16] = { 0 };
    for (int i = 0; i < width; i++)
        chain[i % 16] += x[i] * x[i];
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            chain[i] += chain[i + half];
    const float length = sqrtf(chain[0]);
    const int has_direction = length > 0.0f && length <= FLT_MAX;
    for (int i = 0; i < width; i++)
        out[i] = has_direction ? x[i] / length : NAN;
}

static void exp_of(int count, const float *x, float *out)
{
    for (int i = 0; i < count; i += VL)
        vec_store(out + i, vec_exp(vec_load(x + i)));
}

#define KERNEL_TABLE { PANEL, TILE_ROWS, tile, finish, layernorm, softmax, unit_row, exp_of }
