/* Eight float32 lanes in an AVX register, with FMA; see kernels_body.h for the operations. */
#ifndef FC_VEC_AVX2_H
#define FC_VEC_AVX2_H

#include <immintrin.h>

#define VL 8
#define TILE_ROWS 6    /* 6 x 2 accumulators, 2 panel vectors and a broadcast: 15 of 16 registers */

typedef __m256 vec;

static inline vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vec_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
static inline vec vec_set(float f) { return _mm256_set1_ps(f); }
static inline vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
static inline vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm256_min_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }

static inline vec vec_scale_exp2(vec v, vec biased)
{
    const __m256i shift = _mm256_slli_epi32(_mm256_castps_si256(biased), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), shift));
}

static inline vec vec_select_less(vec a, vec b, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

#endif
