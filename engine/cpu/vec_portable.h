/* Four float32 lanes in the compiler's own vector type: SSE2 on x86-64, NEON on ARM. No fused
 * multiply-add: multiply and add round apart, so that every CPU gives the same bits. */
#ifndef FC_VEC_PORTABLE_H
#define FC_VEC_PORTABLE_H

#include <stdint.h>
#include <string.h>

#define VL 4
#define TILE_ROWS 6    /* 6 x 2 accumulators, 2 panel vectors and a broadcast: 15 of 16 registers */

typedef float vec __attribute__((vector_size(16)));
typedef int32_t vec_int __attribute__((vector_size(16)));

static inline vec vec_load(const float *p) { vec v; memcpy(&v, p, sizeof v); return v; }
static inline void vec_store(float *p, vec v) { memcpy(p, &v, sizeof v); }
static inline vec vec_set(float f) { return (vec){ f, f, f, f }; }
static inline vec vec_add(vec a, vec b) { return a + b; }
static inline vec vec_sub(vec a, vec b) { return a - b; }
static inline vec vec_mul(vec a, vec b) { return a * b; }
static inline vec vec_div(vec a, vec b) { return a / b; }
static inline vec vec_fma(vec a, vec b, vec c) { return a * b + c; }

/* Lanes where mask is all ones come from yes, where it is zero from no. */
static inline vec vec_blend(vec_int mask, vec yes, vec no)
{
    return (vec)(((vec_int)yes & mask) | ((vec_int)no & ~mask));
}

static inline vec vec_max(vec a, vec b) { return vec_blend(a > b, a, b); }
static inline vec vec_min(vec a, vec b) { return vec_blend(a < b, a, b); }

static inline vec vec_scale_exp2(vec v, vec biased)
{
    return (vec)((vec_int)v + ((vec_int)biased << 23));
}

static inline vec vec_select_less(vec a, vec b, vec yes, vec no)
{
    return vec_blend(a < b, yes, no);
}

#endif
