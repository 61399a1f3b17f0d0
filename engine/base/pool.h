/* A small pool of worker threads that one session owns.
 *
 * Two kinds of work. A run is a parallel loop with a caller that waits for it: the steps of the
 * forward pass. Background tasks are taken up by whoever has nothing to run: decoding the next
 * batch. A run never waits for a worker that is deep in a background task; the others share its
 * tasks. So decoding and computing together use exactly the threads that were asked for, and no
 * thread is ever idle while there is work. Nothing is allocated after creation. */
#ifndef FC_POOL_H
#define FC_POOL_H

#include "engine/base/error.h"

typedef struct fc_pool fc_pool;

/* One task of many. worker is 0 for the caller and 1..threads-1 for the workers; two tasks that run
 * at the same time have different workers. */
typedef void fc_task_fn(void *context, int task, int worker);

/* Starts threads - 1 workers. Errors: MEMORY (no memory, or no more threads). */
flatclip_status fc_pool_create(int threads, fc_pool **pool, flatclip_error *err);
void fc_pool_free(fc_pool *pool); /* NULL is allowed; nothing may be running */

int fc_pool_threads(const fc_pool *pool);

/* Calls task(context, i, worker) for every i in 0..count-1 and returns when all are done. */
void fc_pool_run(fc_pool *pool, fc_task_fn *task, void *context, int count);

/* Hands out count background tasks and returns at once. One set at a time. */
void fc_pool_start_background(fc_pool *pool, fc_task_fn *task, void *context, int count);

/* Helps with the background tasks, and returns when all are done (at once if there are none). */
void fc_pool_finish_background(fc_pool *pool);

#endif
