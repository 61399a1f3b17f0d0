/* Allocations that fail, each in turn. */
#define _GNU_SOURCE
#include "bench/stress/stress_faults.h"

#include <errno.h>
#include <string.h>

#include "bench/stress/stress_cuda.h"
#include "bench/stress/stress_heap.h"
#include "bench/stress/stress_reading.h"

enum { MOST = 100000, PICTURES = 8, ROW = 4096 };

/* One thing that can be done again and again; returns its status. */
typedef flatclip_status stress_body(void *user, flatclip_error *err);

static flatclip_status load(void *user, flatclip_error *err)
{
    flatclip_model *model = NULL;
    const flatclip_status status = flatclip_model_load(user, NULL, &model, err);
    flatclip_model_free(model);
    return status;
}

static flatclip_status plan_only(void *user, flatclip_error *err)
{
    return flatclip_plan(user, NULL, NULL, NULL, NULL, NULL, NULL, err);
}

static flatclip_status create(void *user, flatclip_error *err)
{
    flatclip_session *session = NULL;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = 3;
    options.threads = 3;
    const flatclip_status status = flatclip_session_create(user, &options, &session, err);
    flatclip_session_free(session);
    return status;
}

typedef struct {
    flatclip_session *session;
    const char *path;
    float *row;
} stress_decode;

static flatclip_status decode(void *user, flatclip_error *err)
{
    const stress_decode *d = user;
    return flatclip_encode_files(d->session, &d->path, 1, d->row, NULL, err);
}

/* A failure may be survived, or be MEMORY, or IO with the system's words; and it has a message. */
static int is_clean(flatclip_status status, const flatclip_error *err)
{
    const int said = status == FLATCLIP_ERR_IO && strstr(err->message, strerror(ENOMEM));
    return status == FLATCLIP_OK || said ||
           (status == FLATCLIP_ERR_MEMORY && err->message[0] != '\0');
}

/* Fails allocation n. Returns 1 if that went well, 0 if there is none, -1 with a line. */
static int fail_one(const stress_fault_plan *plan, const char *what, stress_body *body, void *user,
                    long n, int lasts)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    stress_reading before = { 0 }, after = { 0 };
    stress_growth growth;
    stress_read_process(&before);
    stress_heap_fail(n, lasts);
    const flatclip_status status = body(user, &err);
    const int happened = stress_heap_stop_failing();
    stress_read_process(&after);
    if (happened && !is_clean(status, &err))
        fprintf(plan->out, "faults: FAIL: %s, failing allocation %ld: %s: %s\n", what, n,
                flatclip_status_name(status), err.message);
    else if (stress_has_grown(&after, &before, &growth))
        fprintf(plan->out, "faults: FAIL: %s, failing allocation %ld: %s grew from %zu to %zu\n",
                what, n, growth.name, growth.limit, growth.now);
    else
        return happened;
    return -1;
}

/* Returns how many allocations failed, or -1. The first, good run settles the C library. */
static long fail_each(const stress_fault_plan *plan, const char *what, stress_body *body,
                      void *user)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    long failed = 0;
    body(user, &err);
    for (int lasts = 0; lasts < 2; lasts++)
        for (long n = 0; n < MOST; n++) {
            const int happened = fail_one(plan, what, body, user, n, lasts);
            if (happened < 0)
                return -1;
            if (!happened)
                break;
            failed++;
        }
    return failed;
}

/* Some good pictures of the run, spread over their list. */
static long fail_pictures(const stress_fault_plan *plan)
{
    static float row[ROW];
    const stress_pictures *p = plan->pictures;
    stress_decode d = { NULL, NULL, row };
    long failed = 0, tried = 0;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = options.threads = 1;
    if (flatclip_model_embed_dim(plan->model) > ROW ||
        flatclip_session_create(plan->model, &options, &d.session, NULL) != FLATCLIP_OK)
        return 0;
    for (size_t i = 0; i < p->count && tried < PICTURES && failed >= 0; i += 1 + p->count / 16) {
        d.path = p->paths[i];
        if (flatclip_encode_files(d.session, &d.path, 1, row, NULL, NULL) != FLATCLIP_OK)
            continue;
        const long more = fail_each(plan, d.path, decode, &d);
        failed = more < 0 ? more : failed + more;
        tried++;
    }
    flatclip_session_free(d.session);
    return failed;
}

int stress_fail_allocations(const stress_fault_plan *plan)
{
    if (!stress_heap_can_fail()) {
        fprintf(plan->out, "faults: failing allocations: skipped: malloc is the %s's here\n",
                stress_heap_source());
        return -1;
    }
    if (stress_cuda_is_emulated()) {
        fprintf(plan->out, "faults: failing allocations: skipped: the stand-in runtime's own would "
                "fail, too\n");
        return -1;
    }
    const long loads = fail_each(plan, "model_load", load, (void *)plan->model_path);
    const long plans = fail_each(plan, "plan", plan_only, (void *)plan->model_path);
    const long sessions = fail_each(plan, "session_create", create, (void *)plan->model);
    const long pictures = fail_pictures(plan);
    if (loads <= 0 || plans <= 0 || sessions <= 0 || pictures < 0)
        return 0;
    fprintf(plan->out, "faults: %ld failing allocations (load %ld, plan %ld, session %ld, pictures "
            "%ld): clean errors, nothing kept\n",
            loads + plans + sessions + pictures, loads, plans, sessions, pictures);
    return 1;
}
