/* cuBLASLt's products through the engine's own provider, as the measure of ours. */
#ifndef DEVICE_CUBLASLT_H
#define DEVICE_CUBLASLT_H

#include "bench/device/device_clock.h"

/* Which one there is: "cuBLASLt 13.1", or why there is none. */
const char *device_cublaslt_words(void);

/* Seconds of one product of 16-bit numbers, as device_time_recorded has it; with what its epilogue
 * lacks. NAN, with the error, without the library, or if it refuses. */
double device_cublaslt_time(const device_clock *clock, const fc_gemm *gemm, double seconds,
                            flatclip_error *err);

#endif
