/* What there is to watch on a GPU: its memory, as the driver sees it. */
#ifndef STRESS_CUDA_H
#define STRESS_CUDA_H

#include <stddef.h>

/* From now on stress_cuda_bytes reads the current device; before, it is 0: a run on the CPU leaves
 * the driver alone. */
void stress_cuda_watch(void);

/* Bytes in use on the device, by whomever: a GPU that others use too may seem to leak. */
size_t stress_cuda_bytes(void);

/* Takes bytes of device memory and forgets them: for the planted leak. */
void stress_cuda_leak(size_t bytes);

/* Whether the runtime is the stand-in, whose calls can be made to fail. */
int stress_cuda_is_emulated(void);

#endif
