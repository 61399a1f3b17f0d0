/* The options of flatclip-bench. */
#ifndef SPEED_OPTIONS_H
#define SPEED_OPTIONS_H

#include <stdio.h>

#include "flatclip.h"

typedef enum {
    SPEED_ENCODE,     /* ready pixels, by batch, device, precision and threads */
    SPEED_PROFILE,    /* the same, stage by stage */
    SPEED_PREPROCESS, /* pictures to pixels on one thread */
    SPEED_END_TO_END, /* files to embeddings */
    SPEED_GATE        /* matrix products against a plain loop */
} speed_mode;

enum { SPEED_MAX_LIST = 16, SPEED_MAX_REPEATS = 10000 };

typedef struct {
    long values[SPEED_MAX_LIST];
    int count;
} speed_list;

typedef struct {
    speed_mode mode;
    const char *model;
    speed_list batches, threads, devices, precisions; /* the last two: values of the enums */
    long repeats;                                     /* 0: as many as fit in three seconds */
    long width, height;                               /* of --resize, or 0 */
    int json;
    const char *csv;                                  /* or NULL */
    char **files;
    int file_count;
} speed_options;

/* Prints how the program is called, and returns code. */
int speed_usage(FILE *to, int code);

/* Returns 0 if the command line is wrong. */
int speed_read_options(int argc, char **argv, speed_options *options);

const char *speed_mode_name(speed_mode mode); /* "encode" */

/* How often a call that takes seconds is repeated: what was asked for, or 10 to 1000 times. */
long speed_repeats(const speed_options *options, double seconds);

#endif
