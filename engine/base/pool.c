/* The worker threads of a session. */
#define _GNU_SOURCE
#include "engine/base/pool.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Steps of a forward pass follow each other within microseconds, so a worker looks for the next one
 * about that long before it sleeps. */
enum { SPINS = 2000 };

/* Tasks handed out by a counter. A worker enters (inside + 1), looks whether the job is open, takes
 * tasks, and leaves. The owner closes the job and waits until nobody is inside; from then on its
 * fields may change. Sequentially consistent atomics make "enter, then look" and "close, then
 * count" exclude each other. */
typedef struct {
    fc_task_fn *task;
    void *context;
    int count;
    atomic_int next, open, inside;
    atomic_uint generation; /* so that a worker does not enter again what it saw exhausted */
} job;

typedef struct {
    fc_pool *pool;
    pthread_t thread;
    int index;                                       /* 1.. : 0 is the caller */
    unsigned run_seen, background_seen;              /* generations that have no tasks left */
} worker;

struct fc_pool {
    int threads, started;
    job run, background;
    atomic_int sleepers, ending;
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* a job was opened, or the pool ends */
    pthread_cond_t done; /* someone left the background job after it was closed */
    worker workers[];
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Takes up to most tasks; returns whether none was left. */
static int take_tasks(job *j, int index, int most)
{
    for (int n = 0; n < most; n++) {
        const int task = atomic_fetch_add(&j->next, 1);
        if (task >= j->count)
            return 1;
        j->task(j->context, task, index);
    }
    return 0;
}

static int is_fresh(job *j, unsigned seen)
{
    return atomic_load(&j->open) && atomic_load(&j->generation) != seen;
}

/* A worker's visit to a job that may close at any moment. */
static void visit(job *j, unsigned *seen, int index, int most)
{
    atomic_fetch_add(&j->inside, 1);
    if (atomic_load(&j->open)) {
        const unsigned generation = atomic_load(&j->generation);
        if (take_tasks(j, index, most))
            *seen = generation;
    }
    atomic_fetch_sub(&j->inside, 1);
}

static int has_work(worker *w)
{
    return is_fresh(&w->pool->run, w->run_seen) ||
           is_fresh(&w->pool->background, w->background_seen) || atomic_load(&w->pool->ending);
}

static void sleep_until_work(worker *w)
{
    fc_pool *pool = w->pool;
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!has_work(w))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void *work(void *argument)
{
    worker *w = argument;
    fc_pool *pool = w->pool;
    for (int idle = 0; !atomic_load(&pool->ending); idle++) {
        if (is_fresh(&pool->run, w->run_seen)) {
            visit(&pool->run, &w->run_seen, w->index, INT_MAX);
            idle = 0;
        } else if (is_fresh(&pool->background, w->background_seen)) {
            visit(&pool->background, &w->background_seen, w->index, 1);
            if (!atomic_load(&pool->background.open)) {
                pthread_mutex_lock(&pool->mutex);
                pthread_cond_signal(&pool->done);
                pthread_mutex_unlock(&pool->mutex);
            }
            idle = 0;
        } else if (idle > SPINS) {
            sleep_until_work(w);
            idle = 0;
        }
        relax();
    }
    return NULL;
}

static void open_job(fc_pool *pool, job *j, fc_task_fn *task, void *context, int count)
{
    j->task = task;
    j->context = context;
    j->count = count;
    atomic_store(&j->next, 0);
    atomic_fetch_add(&j->generation, 1);
    atomic_store(&j->open, 1);
    if (atomic_load(&pool->sleepers)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
}

void fc_pool_run(fc_pool *pool, fc_task_fn *task, void *context, int count)
{
    if (pool->started == 0 || count < 2) {
        for (int i = 0; i < count; i++)
            task(context, i, 0);
        return;
    }
    open_job(pool, &pool->run, task, context, count);
    take_tasks(&pool->run, 0, INT_MAX);
    atomic_store(&pool->run.open, 0);
    for (int spin = 0; atomic_load(&pool->run.inside); spin++) {
        relax();
        if (spin > SPINS) /* more threads than CPUs: let the others finish */
            sched_yield();
    }
}

void fc_pool_start_background(fc_pool *pool, fc_task_fn *task, void *context, int count)
{
    if (count > 0)
        open_job(pool, &pool->background, task, context, count);
}

void fc_pool_finish_background(fc_pool *pool)
{
    if (!atomic_load(&pool->background.open))
        return;
    take_tasks(&pool->background, 0, INT_MAX);
    atomic_store(&pool->background.open, 0);
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->background.inside))
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

int fc_pool_threads(const fc_pool *pool)
{
    return pool->threads;
}

/* Signals belong to the program's own threads: workers block them all. */
static int start_workers(fc_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before))
        return 0;
    while (pool->started < pool->threads - 1) {
        worker *w = &pool->workers[pool->started];
        w->pool = pool;
        w->index = pool->started + 1;
        if (pthread_create(&w->thread, NULL, work, w))
            break;
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool->started == pool->threads - 1;
}

flatclip_status fc_pool_create(int threads, fc_pool **pool, flatclip_error *err)
{
    *pool = NULL;
    fc_pool *p = calloc(1, sizeof *p + (size_t)threads * sizeof p->workers[0]);
    if (!p)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a pool of %d threads", threads);
    p->threads = threads;
    pthread_mutex_init(&p->mutex, NULL); /* with default attributes these cannot fail on Linux */
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    if (!start_workers(p)) {
        const int started = p->started;
        fc_pool_free(p);
        return fc_fail(err, FLATCLIP_ERR_MEMORY,
                       "the system gave %d of %d threads; ask for fewer", started + 1, threads);
    }
    *pool = p;
    return FLATCLIP_OK;
}

void fc_pool_free(fc_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->ending, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
