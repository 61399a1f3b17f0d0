/* A bar with rate and time left, on standard error, for people only: nothing when that is no
 * terminal. Updates allocate nothing. */
#ifndef FC_PROGRESS_H
#define FC_PROGRESS_H

#include <stddef.h>

typedef struct {
    int visible;     /* nonzero: there is a terminal and the user wants it */
    int drawn;       /* nonzero: a bar is on the screen */
    int bytes;       /* nonzero: bytes are counted, not images */
    size_t total;    /* 0, of bytes alone: not known */
    size_t first;    /* bytes that were done before the start */
    double started, updated; /* seconds, of fc_progress_clock */
} fc_progress;

/* Seconds on a clock that never jumps. */
double fc_progress_clock(void);

/* Starts at 0 of total. Nothing is drawn if quiet is nonzero or standard error is no terminal. */
void fc_progress_start(fc_progress *progress, size_t total, int quiet);

/* The same for bytes, of which first are done already. */
void fc_progress_start_bytes(fc_progress *progress, size_t first, size_t total, int quiet);

/* Says that done of total are done; draws at most ten times a second. */
void fc_progress_update(fc_progress *progress, size_t done);

/* Takes the bar off the screen, before something else is printed there, and at the end. */
void fc_progress_clear(fc_progress *progress);

/* Writes the line for done of total after seconds into text, at most columns wide. */
void fc_progress_format(char *text, size_t bytes, int columns, size_t done, size_t total,
                        double seconds);

/* The same for bytes: done of total (0: not known), first of them before the clock was started. */
void fc_progress_format_bytes(char *text, size_t bytes, int columns, size_t first, size_t done,
                              size_t total, double seconds);

#endif
