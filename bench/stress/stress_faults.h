/* Faults on purpose: allocations that fail, disks that are full, signals in the middle of a write.
 * Each prints one line; each returns 1 if all was well, 0 if not, and -1 if it was skipped, with a
 * reason in the line. */
#ifndef STRESS_FAULTS_H
#define STRESS_FAULTS_H

#include <stdio.h>

#include "bench/stress/stress_pictures.h"

typedef struct {
    const char *model_path;
    const flatclip_model *model;
    const stress_pictures *pictures;
    long seed;
    FILE *out; /* where the lines go */
} stress_fault_plan;

/* Every allocation of loading a model, planning, creating a session and decoding pictures fails,
 * alone and with all that follow: a clean error each time, and nothing kept. */
int stress_fail_allocations(const stress_fault_plan *plan);

/* The command line writes to full disks and past size limits: exit 3, and nothing left. */
int stress_fill_disk(const stress_fault_plan *plan);

/* The command line gets signals while it writes: the signal's exit code, no half file. */
int stress_send_signals(const stress_fault_plan *plan);

/* Every call of the CUDA runtime fails while a model is loaded and a session opened: a clean error
 * each time, and no device memory kept. On the stand-in runtime only. */
int stress_fail_cuda_calls(const stress_fault_plan *plan);

#endif
