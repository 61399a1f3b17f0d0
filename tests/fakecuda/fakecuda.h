/* A stand-in for the CUDA runtime, for tests: the calls that engine/cuda makes, over the emulator of
 * tests/simt. The engine is compiled against the real headers and linked with this instead.
 *
 * A stream runs as late as it may: when something waits for it. So a missing synchronisation gives
 * wrong numbers. A stream that runs early instead, beside one that runs late, shows what overwrites
 * a buffer that is still to be read. Recorded work is kept, and reads its
 * buffers when it is replayed. Any call can be made to fail; what a kernel does wrong becomes an
 * error that sticks, as on a device.
 *
 * Environment variables describe the machine to whole programs, read at the first call:
 * FAKECUDA_DEVICES (1; -1: no driver), FAKECUDA_CAPABILITY (80), FAKECUDA_MULTIPROCESSORS (132),
 * FAKECUDA_MEMORY (bytes), FAKECUDA_FAIL_AT (index of the call that fails). */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int devices;                    /* -1: there is no driver */
    int capability, multiprocessors;
    size_t memory;                  /* bytes of a device */
    int random_threads;             /* nonzero: the emulator runs threads in random order */
    int idle;                       /* nonzero: kernels are queued and do nothing, to save time */
    unsigned early;                 /* bit n: the n-th stream from here on, the first being 0, runs
                                     * as early as it may */
} fakecuda_machine;

/* Calls of the runtime since the last reset, by what they do, and what ran. */
typedef struct {
    long calls;                     /* all of them */
    long launches, graph_launches, copies, memsets, events, waits, questions;
    long others;                    /* whatever takes something or gives it back */
    long kernels;                   /* that ran, those of graphs among them */
    long pageable;                  /* asynchronous copies whose host side is not pinned */
} fakecuda_counts;

/* What is live. */
typedef struct {
    size_t device_bytes, pinned_bytes;
    long device_blocks, pinned_blocks, streams, events, graphs, executables;
} fakecuda_holdings;

fakecuda_machine fakecuda_get_machine(void);
void fakecuda_set_machine(const fakecuda_machine *machine);

fakecuda_counts fakecuda_get_counts(void);
fakecuda_holdings fakecuda_get_holdings(void);

/* Forgets counts, failures, the frozen mode and findings; what is live stays. */
void fakecuda_reset(void);

/* From now on, calls that count as others fail with cudaErrorNotPermitted, and so do asynchronous
 * copies from and to pageable memory. */
void fakecuda_freeze(void);

/* Queues work of the host, as if it were a kernel's launch, with a copy of its argument: for
 * stand-ins of libraries that compute on a device. */
struct CUstream_st;
int fakecuda_queue(struct CUstream_st *stream, const char *name, void (*work)(const void *),
                   const void *argument, size_t bytes);

/* Copies between device memory and the host at once, for such work. */
void fakecuda_read(void *to, const void *device, size_t bytes);
void fakecuda_write(void *device, const void *from, size_t bytes);

/* Lets call number index, counted from the last reset, fail with a cudaError_t. */
void fakecuda_fail_at(long index, int error);

/* The first thing that was wrong: of a kernel, or of how the runtime was called. "" if nothing. */
const char *fakecuda_finding(void);

#ifdef __cplusplus
}
#endif
#endif
