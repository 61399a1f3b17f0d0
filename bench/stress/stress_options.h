/* The options of flatclip-stress. */
#ifndef STRESS_OPTIONS_H
#define STRESS_OPTIONS_H

#include <stdio.h>

#include "flatclip.h"

typedef struct {
    const char *model;              /* NULL: the tiny synthetic one */
    long iterations, minutes;       /* minutes, if not 0, instead of iterations */
    long sessions, threads, batch;  /* threads a session, its max_batch */
    long seed;
    flatclip_device device;
    const char *csv;                /* or NULL */
    int json;
    int plain;                      /* each iteration encodes one picture, no more */
    int loop, faults;               /* what to do */
    char **paths;                   /* pictures and folders; none: tests/data */
    int path_count;
} stress_options;

/* Prints how the program is called, and returns code. */
int stress_usage(FILE *to, int code);

/* Returns 0 if the command line is wrong. */
int stress_read_options(int argc, char **argv, stress_options *options);

#endif
