/* An emulator that runs CUDA kernels on the CPU and checks every step: for tests only.
 *
 * Each CUDA thread is a fiber. The kernels' own source is compiled as host C++ with GCC's
 * -fsanitize=thread, which calls __tsan_read4 and the like before every load and store; those are
 * defined here (simt_memory.cpp), so that a kernel needs no changes to be watched. Reported are:
 * accesses out of bounds, misaligned, of memory nobody wrote; data races, by a vector clock a warp;
 * threads that meet different barriers, or a barrier that not all reach; warp instructions with
 * lanes missing or elsewhere; data of asynchronous copies used before its wait.
 *
 * What it cannot see: docs/kernels.md. */
#ifndef SIMT_H
#define SIMT_H

#include <stddef.h>
#include <stdint.h>

#include <vector_types.h>

namespace simt {

/* In which order threads that could all run do run. */
enum Schedule { FORWARD, REVERSE, RANDOM };

/* How a tensor core adds up. EXACT: exactly, rounded once. The others are the model of Xie et al.
 * (MMA-Sim, arXiv 2511.10909): products exact, aligned to the largest exponent, cut to 24 or 25
 * fraction bits, summed in groups of 8 or 16, cut to float32; for compute capability 7.5 to 8.9,
 * and 9.0 to 12.0. */
enum Rounding { EXACT, GROUPS_OF_8, GROUPS_OF_16 };

struct Settings {
    Schedule schedule = FORWARD;
    unsigned seed = 1;                  /* of RANDOM */
    Rounding rounding = EXACT;
    size_t shared_limit = 48 * 1024;    /* bytes that a launch may ask for */
};
extern Settings settings;

struct Counts {
    uint64_t multiplies, matrix_loads, matrix_waves, shuffles, barriers, loads, stores, copies;
};
extern Counts counts;

/* -- Device memory ---------------------------------------------------------------------------- */

/* Memory with guard space on both sides, not written yet. Its name stands in findings. */
void *allocate(size_t bytes, const char *name);
void release(void *block);

/* Copies from the host, which counts as writing; and back. */
void upload(void *to, const void *from, size_t bytes);
void download(void *to, const void *from, size_t bytes);

/* From here on a kernel that writes to the block is a finding. */
void make_read_only(void *block);

/* -- Launching -------------------------------------------------------------------------------- */

/* Runs a kernel, block by block, and ends at the first finding: returns whether there was none;
 * finding() says what it was. */
bool launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void *),
            void *arguments);
const char *finding();

} /* namespace simt */

#endif
