/* The regression gate: our matrix product against a plain loop in the same process.
 *
 * Times mean nothing on a machine that others use too; a ratio of two loops that run in turns does.
 * Two references. A plain loop, one chain of additions as C prescribes without -ffast-math, whose
 * rate depends on the processor's latency alone: kernels that lost their vectors or spill their
 * registers are not far enough ahead of it. And our own portable kernels: on a CPU with AVX2 the
 * kernels that the engine chose must be ahead of them, or it has fallen back. What the CPU supports
 * is asked of the compiler's runtime, not of the engine. */
#ifndef SPEED_GATE_H
#define SPEED_GATE_H

#include "bench/speed/speed_report.h"

/* Measures, and prints one row. Returns 1 if both ratios are high enough, 0 if one is not or
 * the products differ, -1 with *err. */
int speed_gate(speed_report *report, flatclip_error *err);

#endif
