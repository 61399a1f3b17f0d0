/* Conversions between float32 and the 16-bit storage types, in plain C. */
#ifndef FC_HALF_H
#define FC_HALF_H

#include <stddef.h>
#include <stdint.h>

float fc_half_to_float(uint16_t half);      /* exact */
float fc_bf16_to_float(uint16_t bf16);      /* exact */
uint16_t fc_float_to_half(float value);     /* to nearest, ties to even; overflow to infinity */
uint16_t fc_float_to_bf16(float value);     /* to nearest, ties to even; NaN stays NaN */

/* The same over count values, in loops that vectorise; in and out must not overlap. */
void fc_halves_to_floats(const uint16_t *in, size_t count, float *out);
void fc_bf16s_to_floats(const uint16_t *in, size_t count, float *out);
/* Returns nonzero only if every value was a half already, so that nothing was lost (subnormal ones
 * do not count). */
int fc_floats_to_halves(const float *in, size_t count, uint16_t *out);
void fc_floats_to_bf16s(const float *in, size_t count, uint16_t *out);

#endif
