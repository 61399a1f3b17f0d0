/* cuBLASLt's products through the engine's own provider, as the measure of ours. */
#ifndef GPU_LIBRARY_H
#define GPU_LIBRARY_H

#include "bench/gpu/gpu_parts.h"

/* Which one there is: "cuBLASLt 13.1", or why there is none. */
const char *gpu_library_words(void);

/* Seconds of one product, as gpu_time_recorded has it; with what its epilogue lacks. NAN, and
 * said, without the library, or in a rehearsal. */
double gpu_library_time(gpu_run *run, const char *what, const fc_gemm *gemm, double seconds);

#endif
