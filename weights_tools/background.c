/* A ring of buffers between the thread that fills them and the one that consumes them. */
#define _GNU_SOURCE
#include "weights_tools/background.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8, SLOT_BYTES = 256 << 10 };

struct fc_background {
    fc_consume_fn *consume;
    void *user;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex: */
    size_t first, count;        /* filled slots: first, first + 1, ... modulo SLOTS */
    int ended;                  /* nothing more will come */
    int problem;                /* errno of the first failure */
    /* A slot is the filler's until it is counted, and the consumer's until it no longer is. */
    size_t used[SLOTS];
    unsigned char slot[SLOTS][SLOT_BYTES];
};

static void *run(void *user)
{
    fc_background *s = user;
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        while (!s->count && !s->ended)
            pthread_cond_wait(&s->changed, &s->mutex);
        if (!s->count)
            break;
        const size_t slot = s->first;
        const int failed = s->problem;
        pthread_mutex_unlock(&s->mutex);
        const int problem = failed ? 0 : s->consume(s->user, s->slot[slot], s->used[slot]);
        pthread_mutex_lock(&s->mutex);
        s->problem = s->problem ? s->problem : problem;
        s->first = (s->first + 1) % SLOTS;
        s->count--;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

flatclip_status fc_background_open(fc_consume_fn *consume, void *user, fc_background **stream,
                                   flatclip_error *err)
{
    sigset_t all, before;
    *stream = NULL;
    fc_background *s = malloc(sizeof *s);
    if (!s)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a background thread");
    memset(s, 0, offsetof(fc_background, slot));
    s->consume = consume;
    s->user = user;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    sigfillset(&all); /* signals are for the threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&s->thread, NULL, run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(s);
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no background thread can be had: %s",
                       strerror(failed));
    }
    *stream = s;
    return FLATCLIP_OK;
}

/* Takes a slot that is free, or ends early after a failure: returns whether there is one. */
static int wait_for_slot(fc_background *s, size_t *slot)
{
    pthread_mutex_lock(&s->mutex);
    while (s->count == SLOTS && !s->problem)
        pthread_cond_wait(&s->changed, &s->mutex);
    const int good = !s->problem;
    *slot = (s->first + s->count) % SLOTS;
    pthread_mutex_unlock(&s->mutex);
    return good;
}

void fc_background_put(fc_background *s, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    size_t slot;
    while (bytes && wait_for_slot(s, &slot)) {
        const size_t now = bytes < SLOT_BYTES ? bytes : SLOT_BYTES;
        memcpy(s->slot[slot], from, now);
        s->used[slot] = now;
        pthread_mutex_lock(&s->mutex);
        s->count++;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->mutex);
        from += now;
        bytes -= now;
    }
}

int fc_background_close(fc_background *s)
{
    if (!s)
        return 0;
    pthread_mutex_lock(&s->mutex);
    s->ended = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    const int problem = s->problem;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s);
    return problem;
}
