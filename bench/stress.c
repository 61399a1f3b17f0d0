/* flatclip-stress: the loop that must not grow, at random and at length, and faults on purpose.
 * What it does is in bench/stress/. Exit: 0 PASS, 1 FAIL, 2 wrong usage, 3 model or device
 * unusable. */
#define _GNU_SOURCE
#include <pthread.h>

#include "bench/measure.h"
#include "bench/stress/stress_cuda.h"
#include "bench/stress/stress_faults.h"
#include "bench/stress/stress_heap.h"
#include "bench/stress/stress_made.h"
#include "bench/stress/stress_report.h"
#include "weights_tools/synth.h"

enum { STACK_BYTES = 1 << 20, KINDS = 4 };

typedef struct {
    stress_options options;
    char model_path[1100];
    char made[1100]; /* the same, if it is a file to remove; else "" */
    flatclip_model *model;
    stress_made made_pictures;
    stress_pictures pictures;
    stress_result result;
    FILE *out; /* words: standard output, or standard error beside --json */
    int faults; /* 1 good, 0 bad, -1 not tried */
} stress_program;

/* The model that was named, or the tiny one of `make test`, or one that is made now. */
static flatclip_status find_model(stress_program *p, flatclip_error *err)
{
    static const char usual[] = "build/models/tiny.safetensors";
    const char *base = getenv("TMPDIR");
    if (p->options.model || access(usual, R_OK) == 0) {
        snprintf(p->model_path, sizeof p->model_path, "%s",
                 p->options.model ? p->options.model : usual);
        return FLATCLIP_OK;
    }
    snprintf(p->made, sizeof p->made, "%.1000s/flatclip-stress-%ld.safetensors",
             base && *base ? base : "/tmp", (long)getpid());
    snprintf(p->model_path, sizeof p->model_path, "%s", p->made);
    return fc_synth_write("tiny", 1, FC_F32, p->made, err);
}

/* The pictures that were named, or those of the tests, or some that are made now. */
static int find_pictures(stress_program *p)
{
    char *made = p->made_pictures.folder;
    const int count = p->options.path_count;
    if (count > 0 || stress_pictures_are_here())
        return stress_pictures_open(&p->pictures, p->options.paths, count);
    return stress_made_open(&p->made_pictures) && stress_pictures_open(&p->pictures, &made, 1);
}

/* Loads the model and learns what each picture gives. */
static int prepare(stress_program *p)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_session *session = NULL;
    flatclip_model_options model_options = FLATCLIP_MODEL_OPTIONS_INIT;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    model_options.device = p->options.device;
    options.max_batch = options.threads = 1;
    if (!find_pictures(p))
        return 0;
    if (find_model(p, &err) != FLATCLIP_OK ||
        flatclip_model_load(p->model_path, &model_options, &p->model, &err) != FLATCLIP_OK ||
        flatclip_session_create(p->model, &options, &session, &err) != FLATCLIP_OK) {
        fprintf(stderr, "flatclip-stress: %s\n", err.message);
        return 0;
    }
    const int good =
        stress_pictures_learn(&p->pictures, session, flatclip_model_embed_dim(p->model));
    flatclip_session_free(session);
    return good;
}

static void introduce(const stress_program *p, const char *backend)
{
    const stress_options *o = &p->options;
    size_t bad = 0;
    for (size_t i = 0; i < p->pictures.count; i++)
        bad += p->pictures.statuses[i] != FLATCLIP_OK;
    fprintf(p->out, "flatclip-stress: %s on %s%s, seed %ld: %ld sessions of %ld threads and batch "
            "%ld, %zu pictures (%zu bad%s), heap by %s\n",
            p->model_path, backend, p->made[0] ? " (made for this run)" : "", o->seed, o->sessions,
            o->threads, o->batch, p->pictures.count, bad,
            p->made_pictures.folder[0] ? ", made for this run" : "", stress_heap_source());
}

/* The device's memory is watched if the model is there; else the reason is said. */
static void watch_device(const stress_program *p, const flatclip_model_info *info)
{
    if (info->device == FLATCLIP_DEVICE_CUDA)
        stress_cuda_watch();
    else
        fprintf(p->out, "device memory: skipped: the model is on the CPU%s%s\n",
                info->fallback[0] ? ": " : "", info->fallback);
}

static void inject_faults(stress_program *p)
{
    const stress_fault_plan plan = { p->model_path, p->model, &p->pictures, p->options.seed,
                                     p->out };
    const int results[] = { stress_fail_allocations(&plan), stress_fill_disk(&plan),
                            stress_send_signals(&plan), stress_fail_cuda_calls(&plan) };
    int good = 0, skipped = 0;
    for (int i = 0; i < KINDS; i++) {
        good += results[i] > 0;
        skipped += results[i] < 0;
    }
    p->faults = good + skipped < KINDS ? 0 : good > 0 ? 1 : -1;
    fprintf(p->out, "faults: %s", p->faults == 0 ? "FAIL" : p->faults > 0 ? "PASS" : "skipped");
    if (skipped)
        fprintf(p->out, ", %d of %d kinds skipped", skipped, KINDS);
    fputc('\n', p->out);
}

static int run_loop(stress_program *p)
{
    static char buffer[1 << 16]; /* so that writing takes nothing from the heap */
    FILE *csv = p->options.csv ? fopen(p->options.csv, "w") : NULL;
    if (p->options.csv && !csv) {
        fprintf(stderr, "flatclip-stress: %s cannot be written\n", p->options.csv);
        return 0;
    }
    if (csv)
        setvbuf(csv, buffer, _IOFBF, sizeof buffer);
    stress_loop(&p->options, p->model_path, p->model, &p->pictures, csv, &p->result);
    if (csv && (ferror(csv) | fclose(csv)))
        fprintf(stderr, "flatclip-stress: %s is not complete\n", p->options.csv);
    stress_print_verdict(p->out, &p->options, &p->result);
    return 1;
}

static int run(stress_program *p)
{
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    if (!prepare(p))
        return 3;
    flatclip_model_describe(p->model, &info);
    introduce(p, info.backend);
    watch_device(p, &info);
    if (p->options.faults)
        inject_faults(p);
    if (p->options.loop && !run_loop(p))
        return 3;
    if (p->options.json)
        stress_print_json(stdout, &p->options, info.backend, &p->result, p->faults);
    return p->faults == 0 || (p->options.loop && !p->result.passed);
}

/* Threads come and go with sessions, and glibc keeps 40 MiB of their stacks for the next ones. With
 * small stacks it keeps all of them, and the heap that belongs to each. */
static void shrink_stacks(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

int main(int argc, char **argv)
{
    static char buffer[4096];
    static stress_program program;
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    if (strcmp(stress_heap_source(), "mallinfo2") == 0)
        measure_exactly(argv);
    if (asks_for_help(argc, argv))
        return stress_usage(stdout, 0);
    if (!stress_read_options(argc, argv, &program.options))
        return stress_usage(stderr, 2);
    shrink_stacks();
    program.out = program.options.json ? stderr : stdout;
    program.faults = -1;
    const int code = run(&program);
    flatclip_model_free(program.model);
    stress_pictures_close(&program.pictures);
    stress_made_close(&program.made_pictures);
    if (program.made[0])
        unlink(program.made);
    return code;
}
