/* Conversions between float32 and the 16-bit storage types, in plain C. */
#ifndef FC_HALF_H
#define FC_HALF_H

#include <stdint.h>

float fc_half_to_float(uint16_t half);      /* exact */
float fc_bf16_to_float(uint16_t bf16);      /* exact */
uint16_t fc_float_to_half(float value);     /* rounds to nearest, ties to even; overflow to infinity */
uint16_t fc_float_to_bf16(float value);     /* rounds to nearest, ties to even; NaN stays NaN */

#endif
