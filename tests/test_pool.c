/* The thread pool: every task exactly once, runs beside background work, and the count of CPUs. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/base/cpu_count.h"
#include "engine/base/pool.h"

enum { TASKS = 1000, MOST_THREADS = 8 };

typedef struct {
    atomic_int done[TASKS];
    atomic_int busy[MOST_THREADS]; /* a worker runs one task at a time */
    atomic_int wrong;
    int pause_us;
} tally;

static void count_task(void *context, int task, int worker)
{
    tally *t = context;
    if (worker < 0 || worker >= MOST_THREADS || atomic_fetch_add(&t->busy[worker], 1) != 0)
        atomic_fetch_add(&t->wrong, 1);
    if (t->pause_us)
        usleep((useconds_t)t->pause_us);
    atomic_fetch_add(&t->done[task], 1);
    atomic_fetch_sub(&t->busy[worker], 1);
}

static void assert_each_once(tally *t, int count)
{
    assert_int_equal(t->wrong, 0);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(t->done[i], i < count ? 1 : 0);
}

static void run_calls_every_task_once(void **state)
{
    (void)state;
    static const int counts[] = { 0, 1, 2, 3, 7, TASKS };
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        fc_pool *pool;
        assert_int_equal(fc_pool_create(threads, &pool, NULL), FLATCLIP_OK);
        assert_int_equal(fc_pool_threads(pool), threads);
        for (int repeat = 0; repeat < 200; repeat++) {
            tally t = { 0 };
            const int count = counts[repeat % 6];
            fc_pool_run(pool, count_task, &t, count);
            assert_each_once(&t, count);
        }
        fc_pool_free(pool);
    }
}

static void background_tasks_are_done_beside_runs(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        fc_pool *pool;
        assert_int_equal(fc_pool_create(threads, &pool, NULL), FLATCLIP_OK);
        for (int repeat = 0; repeat < 50; repeat++) {
            tally background = { .pause_us = 100 }, runs = { 0 };
            fc_pool_start_background(pool, count_task, &background, 20);
            for (int step = 0; step < 20; step++) {
                memset(&runs, 0, sizeof runs);
                fc_pool_run(pool, count_task, &runs, 50);
                assert_each_once(&runs, 50);
            }
            fc_pool_finish_background(pool);
            assert_each_once(&background, 20);
            fc_pool_finish_background(pool); /* nothing left: returns at once */
        }
        fc_pool_free(pool);
    }
}

static void workers_wake_after_a_sleep(void **state)
{
    (void)state;
    fc_pool *pool;
    assert_int_equal(fc_pool_create(3, &pool, NULL), FLATCLIP_OK);
    for (int repeat = 0; repeat < 5; repeat++) {
        tally t = { .pause_us = 50 };
        usleep(20000); /* long enough for them to fall asleep */
        fc_pool_run(pool, count_task, &t, 100);
        assert_each_once(&t, 100);
    }
    fc_pool_free(pool);
}

/* Signals are the program's own affair: no worker may be picked to handle one. */
static void workers_block_signals(void **state)
{
    (void)state;
    fc_pool *pool;
    assert_int_equal(fc_pool_create(4, &pool, NULL), FLATCLIP_OK);
    /* The C library blocks all signals while a thread starts: wait until all have done a task. */
    tally t = { .pause_us = 500 };
    fc_pool_run(pool, count_task, &t, 100);
    int blocking = 0, others = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], line[256];
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = fopen(path, "r");
        assert_non_null(status);
        unsigned long long blocked = 0;
        while (fgets(line, sizeof line, status))
            sscanf(line, "SigBlk: %llx", &blocked);
        fclose(status);
        if ((blocked >> (SIGINT - 1) & 1) && (blocked >> (SIGUSR1 - 1) & 1))
            blocking++;
        else
            others++;
    }
    closedir(tasks);
    fc_pool_free(pool);
    assert_true(blocking >= 3); /* a sanitizer has a thread of its own */
    assert_int_equal(others, 0);
}

static void cpu_count_follows_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_in_range(fc_cpu_count(), 1, CPU_COUNT(&before));
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(fc_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_calls_every_task_once),
        cmocka_unit_test(background_tasks_are_done_beside_runs),
        cmocka_unit_test(workers_wake_after_a_sleep),
        cmocka_unit_test(workers_block_signals),
        cmocka_unit_test(cpu_count_follows_affinity),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
