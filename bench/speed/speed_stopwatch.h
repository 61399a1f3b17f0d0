/* Points in time between the operations of a forward pass, on whatever runs them: the CPU's clock,
 * or events on a GPU's stream, which cost next to nothing and are read when all is done. */
#ifndef SPEED_STOPWATCH_H
#define SPEED_STOPWATCH_H

#include "flatclip.h"
#include "kernels/launch.h"

enum { SPEED_MARKS = 1280 }; /* 64 layers of 10 operations, two each */

typedef struct {
    fc_cuda_stream stream;                  /* NULL on the CPU */
    int count;
    double seconds[SPEED_MARKS];
    struct CUevent_st *event[SPEED_MARKS];
} speed_stopwatch;

/* Readies *watch. Errors: DEVICE, UNAVAILABLE (a stream in a build without CUDA). Close it in any
 * case. */
flatclip_status speed_stopwatch_open(speed_stopwatch *watch, fc_cuda_stream stream,
                                     flatclip_error *err);
void speed_stopwatch_close(speed_stopwatch *watch);

void speed_stopwatch_start(speed_stopwatch *watch);    /* forgets all marks */
int speed_stopwatch_mark(speed_stopwatch *watch);      /* notes now; returns the mark's number */

/* Waits for the last mark, and makes seconds[] of all of them right, from the first one on.
 * Errors: DEVICE. */
flatclip_status speed_stopwatch_stop(speed_stopwatch *watch, flatclip_error *err);

#endif
