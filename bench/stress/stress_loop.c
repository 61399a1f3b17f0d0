/* Runs the workers in step and looks at the process between two steps, when no call is running:
 * what is in use then must be the same to the byte. */
#define _GNU_SOURCE
#include "bench/stress/stress_loop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "bench/stress/stress_leak.h"
#include "bench/stress/stress_worker.h"

enum { TOURS = 3, TREND_ROOM = 1 << 16 };

typedef struct {
    stress_team team;
    stress_worker *workers;
    long count; /* of workers with a thread */
    stress_trend trend;
    FILE *csv;
    stress_result *result;
} stress_run;

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void fail_at(stress_result *result, const char *reason)
{
    if (result->reason[0])
        return;
    result->failed_at = result->iterations;
    snprintf(result->reason, sizeof result->reason, "%.500s", reason);
}

static void step(stress_run *run)
{
    pthread_barrier_wait(&run->team.begin);
    pthread_barrier_wait(&run->team.end);
    for (long i = 0; i < run->count; i++)
        if (run->workers[i].failure[0])
            fail_at(run->result, run->workers[i].failure);
}

static void read_all(const stress_run *run, stress_reading *now)
{
    flatclip_memory model = FLATCLIP_MEMORY_INIT;
    flatclip_model_memory(run->team.model, &model);
    now->engine = model.total;
    now->device = model.device;
    for (long i = 0; i < run->count; i++)
        stress_worker_read(&run->workers[i], now);
    stress_read_process(now);
}

static void write_line(const stress_run *run, const stress_reading *now)
{
    if (run->csv)
        fprintf(run->csv, "%ld,%zu,%zu,%zu,%zu,%zu,%zu,%zu,%zu,%zu\n", run->result->iterations,
                now->engine, now->device, now->device_used, now->heap, now->blocks, now->resident,
                now->peak, now->descriptors, now->threads);
}

/* Compares with what the warm-up reached. */
static void judge(stress_run *run, stress_reading *now)
{
    char text[200];
    stress_growth growth;
    stress_result *result = run->result;
    if (result->iterations <= result->warm_up) {
        stress_raise_limit(&result->limit, now);
        return;
    }
    stress_trend_add(&run->trend, now->resident);
    if (!stress_has_grown(now, &result->limit, &growth))
        return;
    snprintf(text, sizeof text, "%s grew from %zu to %zu (by %zu)", growth.name, growth.limit,
             growth.now, growth.now - growth.limit);
    fail_at(result, text);
}

static int goes_on(const stress_run *run, double start)
{
    const stress_options *o = run->team.options;
    if (run->result->reason[0] || interrupted)
        return 0;
    if (o->minutes)
        return seconds_now() - start < 60.0 * (double)o->minutes;
    return run->result->iterations < o->iterations;
}

static void judge_trend(stress_run *run)
{
    char text[200];
    stress_slope *slope = &run->result->slope;
    *slope = stress_trend_fit(&run->trend);
    if (!slope->grows)
        return;
    snprintf(text, sizeof text,
             "resident memory grows by %.0f bytes an iteration (99.9 %% interval %.0f to %.0f), "
             "from %zu to %zu",
             slope->slope, slope->low, slope->high, run->result->limit.resident,
             run->result->last.resident);
    fail_at(run->result, text);
}

/* All workers do everything, so that libraries and threads have taken what they keep. */
static void tour(stress_run *run)
{
    run->team.tour = 1;
    for (int i = 0; i < TOURS && !run->result->reason[0]; i++)
        step(run);
    run->team.tour = 0;
}

static void run_iterations(stress_run *run)
{
    const double start = seconds_now();
    stress_result *result = run->result;
    tour(run);
    while (goes_on(run, start)) {
        step(run);
        result->iterations++;
        stress_leak(result->iterations);
        read_all(run, &result->last);
        write_line(run, &result->last);
        judge(run, &result->last);
    }
    result->seconds = seconds_now() - start;
    judge_trend(run);
    result->passed = !result->reason[0];
}

static int start_workers(stress_run *run)
{
    const long wanted = run->team.options->sessions;
    run->workers = calloc((size_t)wanted, sizeof *run->workers);
    if (!run->workers || !stress_trend_open(&run->trend, TREND_ROOM))
        return 0;
    for (; run->count < wanted; run->count++)
        if (!stress_worker_start(&run->workers[run->count], &run->team, (int)run->count)) {
            fail_at(run->result, run->workers[run->count].failure);
            stress_worker_free(&run->workers[run->count]);
            return 0;
        }
    return 1;
}

/* Threads that were started wait at the first barrier, which counts all that were wanted: only a
 * whole team can be told to stop. */
static void stop_workers(stress_run *run)
{
    run->team.stopping = 1;
    pthread_barrier_wait(&run->team.begin);
    for (long i = 0; i < run->count; i++) {
        stress_worker *worker = &run->workers[i];
        stress_worker_join(worker);
        run->result->images += worker->images;
        run->result->refused += worker->refused;
        run->result->sessions += worker->sessions;
        run->result->models += worker->models;
        stress_worker_free(worker);
    }
}

static void catch_signals(void)
{
    struct sigaction action = { 0 };
    action.sa_handler = interrupt;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static long choose_warm_up(const stress_options *o)
{
    const long part = o->minutes ? 500 : o->iterations / 20;
    return part < 20 ? 20 : part > 500 ? 500 : part;
}

void stress_loop(const stress_options *options, const char *model_path,
                 const flatclip_model *model, const stress_pictures *pictures, FILE *csv,
                 stress_result *result)
{
    stress_run run = { .team = { .options = options, .model_path = model_path, .model = model,
                                 .pictures = pictures },
                       .csv = csv, .result = result };
    *result = (stress_result){ .warm_up = choose_warm_up(options) };
    pthread_barrier_init(&run.team.begin, NULL, (unsigned)options->sessions + 1);
    pthread_barrier_init(&run.team.end, NULL, (unsigned)options->sessions + 1);
    pthread_mutex_init(&run.team.loading, NULL);
    catch_signals();
    if (csv)
        fputs("iteration,engine,device,device_used,heap,blocks,resident,peak,descriptors,threads"
              "\n", csv);
    if (start_workers(&run)) {
        run_iterations(&run);
        stop_workers(&run);
    }
    stress_trend_close(&run.trend);
    free(run.workers);
}
