/* A ring of buffers between the thread that fills them and the one that writes them. */
#define _GNU_SOURCE
#include "weights_tools/write_behind.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 8, SLOT_BYTES = 256 << 10 };

struct fc_write_behind {
    int file;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex: */
    size_t first, count;        /* filled slots: first, first + 1, ... modulo SLOTS */
    int ended;                  /* nothing more will come */
    int problem;                /* errno of the first failure */
    /* A slot is the filler's until it is counted, and the writer's until it no longer is. */
    size_t used[SLOTS];
    unsigned char slot[SLOTS][SLOT_BYTES];
};

static int write_all(int file, const unsigned char *data, size_t bytes)
{
    while (bytes) {
        const ssize_t put = write(file, data, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        data += put;
        bytes -= (size_t)put;
    }
    return 0;
}

/* Asks the system to bring to the disk what was written, so that the fsync at the end finds little
 * left. A hint: where it is not known, or fails, nothing is lost. */
static void start_writeback(int file)
{
#ifdef SYNC_FILE_RANGE_WRITE
    sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)file;
#endif
}

static void *run(void *user)
{
    enum { SLOTS_A_HINT = 64 };
    fc_write_behind *w = user;
    int written = 0;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (!w->count && !w->ended)
            pthread_cond_wait(&w->changed, &w->mutex);
        if (!w->count)
            break;
        const size_t slot = w->first;
        const int failed = w->problem;
        pthread_mutex_unlock(&w->mutex);
        const int problem = failed ? 0 : write_all(w->file, w->slot[slot], w->used[slot]);
        if (++written % SLOTS_A_HINT == 0)
            start_writeback(w->file);
        pthread_mutex_lock(&w->mutex);
        w->problem = w->problem ? w->problem : problem;
        w->first = (w->first + 1) % SLOTS;
        w->count--;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

flatclip_status fc_write_behind_open(int file, fc_write_behind **writer, flatclip_error *err)
{
    sigset_t all, before;
    *writer = NULL;
    fc_write_behind *w = malloc(sizeof *w);
    if (!w)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to write");
    memset(w, 0, offsetof(fc_write_behind, slot));
    w->file = file;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    sigfillset(&all); /* signals are for the threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(w);
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no thread to write with: %s", strerror(failed));
    }
    *writer = w;
    return FLATCLIP_OK;
}

/* Takes a slot that is free, or ends early after a failure: returns whether there is one. */
static int wait_for_slot(fc_write_behind *w, size_t *slot)
{
    pthread_mutex_lock(&w->mutex);
    while (w->count == SLOTS && !w->problem)
        pthread_cond_wait(&w->changed, &w->mutex);
    const int good = !w->problem;
    *slot = (w->first + w->count) % SLOTS;
    pthread_mutex_unlock(&w->mutex);
    return good;
}

void fc_write_behind_put(fc_write_behind *w, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    size_t slot;
    while (bytes && wait_for_slot(w, &slot)) {
        const size_t now = bytes < SLOT_BYTES ? bytes : SLOT_BYTES;
        memcpy(w->slot[slot], from, now);
        w->used[slot] = now;
        pthread_mutex_lock(&w->mutex);
        w->count++;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->mutex);
        from += now;
        bytes -= now;
    }
}

int fc_write_behind_close(fc_write_behind *w)
{
    if (!w)
        return 0;
    pthread_mutex_lock(&w->mutex);
    w->ended = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    const int problem = w->problem;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w);
    return problem;
}
