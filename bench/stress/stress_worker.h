/* One session on a thread of its own, doing something random in every iteration. */
#ifndef STRESS_WORKER_H
#define STRESS_WORKER_H

#include <pthread.h>

#include "bench/stress/stress_options.h"
#include "bench/stress/stress_pictures.h"
#include "bench/stress/stress_reading.h"

/* What the workers share. */
typedef struct {
    const stress_options *options;
    const char *model_path;
    const flatclip_model *model;
    const stress_pictures *pictures;
    pthread_barrier_t begin, end; /* of an iteration: the main thread stands at both, too */
    pthread_mutex_t loading;      /* one more model at a time: two of them need not fit */
    int stopping, tour;           /* set between iterations; tour: one of the rounds at the start
                                   * in which every worker does everything once */
} stress_team;

typedef struct {
    stress_team *team;
    pthread_t thread;
    flatclip_session *session;
    uint64_t random;
    size_t most;               /* images in one call: twice max_batch, so that calls are split */
    uint8_t *pixels;           /* [most, S, S, 3] */
    float *floats;             /* [most, 3, S, S] */
    float *rows;               /* [most, D] */
    flatclip_error *items;     /* [most] */
    size_t *chosen;            /* [most]: pictures of this call */
    const char **paths;        /* [most] */
    flatclip_bytes *bytes;     /* [most] */
    uint8_t *damaged;          /* room for a broken copy of a picture */
    size_t images, refused, sessions, models; /* encoded, failed alone, opened */
    char failure[400];         /* what went wrong, or "" */
} stress_worker;

/* Takes everything that the worker will need and starts its thread, which waits at team->begin.
 * Returns 0 if it cannot, with a reason in worker->failure; free it all the same. */
int stress_worker_start(stress_worker *worker, stress_team *team, int index);

/* Waits for the thread, which must have been told to stop. */
void stress_worker_join(stress_worker *worker);
void stress_worker_free(stress_worker *worker);

/* Adds the bytes of the worker's session (without its model's) to a reading. */
void stress_worker_read(const stress_worker *worker, stress_reading *reading);

#endif
