/* What a GPU can do at most, measured in the same run as what it is compared with. */
#ifndef DEVICE_CEILING_H
#define DEVICE_CEILING_H

#include "bench/device/device_clock.h"

/* FLOP a second of cuBLASLt's product of two square matrices of 16-bit numbers, *side rows each:
 * 8192, as everybody quotes it, or the first size that takes 10 ms on a device as slow as that.
 * Numbers are zero, which costs less power than others. NAN, with the error, without the library or
 * the memory (384 MiB for the largest). */
double device_ceiling_product(const device_clock *clock, fc_number number, int *side,
                              flatclip_error *err);

/* Bytes a second that a copy on the device reads and writes, together: of 512 MiB, or less on a
 * slow device. NAN, with the error, if something fails. */
double device_ceiling_copy(const device_clock *clock, flatclip_error *err);

#endif
