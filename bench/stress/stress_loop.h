/* The loop: iterations of all workers, with everything read in between. */
#ifndef STRESS_LOOP_H
#define STRESS_LOOP_H

#include "bench/stress/stress_options.h"
#include "bench/stress/stress_pictures.h"
#include "bench/stress/stress_reading.h"
#include "bench/stress/stress_trend.h"

typedef struct {
    long iterations, warm_up;  /* done; the first ones, in which growth is allowed */
    double seconds;
    stress_reading limit, last;
    stress_slope slope;        /* of resident memory, after the warm-up */
    size_t images, refused, sessions, models;
    int passed;
    long failed_at;            /* iteration, or 0 */
    char reason[512];          /* of the failure */
} stress_result;

/* Runs until the iterations, the minutes or a signal (SIGINT, SIGTERM) end it, or something grows
 * or goes wrong. csv gets a line an iteration, unless it is NULL. */
void stress_loop(const stress_options *options, const char *model_path,
                 const flatclip_model *model, const stress_pictures *pictures, FILE *csv,
                 stress_result *result);

#endif
