/* Sixteen float32 lanes in an AVX-512 register; see kernels_body.h for the operations' meaning. */
#ifndef FC_VEC_AVX512_H
#define FC_VEC_AVX512_H

#include <immintrin.h>

#define VL 16          /* lanes */
#define TILE_ROWS 14   /* 14 x 2 accumulators, 2 panel vectors, a broadcast: 31 of 32 registers */

typedef __m512 vec;

static inline vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vec_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
static inline vec vec_set(float f) { return _mm512_set1_ps(f); }
static inline vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }

static inline vec vec_scale_exp2(vec v, vec biased)
{
    const __m512i shift = _mm512_slli_epi32(_mm512_castps_si512(biased), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(v), shift));
}

static inline vec vec_select_less(vec a, vec b, vec yes, vec no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

#endif
