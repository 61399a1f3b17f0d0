/* Device memory, and calls of the runtime that fail. */
#include "bench/stress/stress_cuda.h"

#include "bench/stress/stress_faults.h"

#ifdef FC_WITH_CUDA

#include <cuda_runtime_api.h>

/* Only the stand-in runtime has these (tests/fakecuda). */
__attribute__((weak)) void fakecuda_reset(void);
__attribute__((weak)) void fakecuda_fail_at(long index, int error);

static int watched;

void stress_cuda_watch(void)
{
    watched = 1;
}

size_t stress_cuda_bytes(void)
{
    size_t free_bytes = 0, all = 0;
    if (!watched || cudaMemGetInfo(&free_bytes, &all) != cudaSuccess)
        return 0;
    return all - free_bytes;
}

void stress_cuda_leak(size_t bytes)
{
    void *forgotten;
    (void)cudaMalloc(&forgotten, bytes);
}

int stress_cuda_is_emulated(void)
{
    return fakecuda_fail_at != NULL;
}

enum { MOST_CALLS = 10000, ENOUGH_SUCCESSES = 40 };

/* Loads, opens and closes while call number n fails, unless there are fewer. */
static flatclip_status live_with_failing_call(const stress_fault_plan *plan, long n,
                                              flatclip_error *err)
{
    flatclip_model *model = NULL;
    flatclip_session *session = NULL;
    flatclip_model_options options = FLATCLIP_MODEL_OPTIONS_INIT;
    flatclip_session_options small = FLATCLIP_SESSION_OPTIONS_INIT;
    options.device = FLATCLIP_DEVICE_CUDA;
    small.max_batch = small.threads = 1;
    fakecuda_reset();
    fakecuda_fail_at(n, cudaErrorMemoryAllocation);
    flatclip_status status = flatclip_model_load(plan->model_path, &options, &model, err);
    if (status == FLATCLIP_OK)
        status = flatclip_session_create(model, &small, &session, err);
    flatclip_session_free(session);
    flatclip_model_free(model);
    return status;
}

/* Calls that give back do not report a failure, and what lies between them are few: after many
 * successes in a row, there was no call n any more. */
int stress_fail_cuda_calls(const stress_fault_plan *plan)
{
    long failed = 0, successes = 0;
    if (!fakecuda_fail_at) {
        fprintf(plan->out, "faults: failing CUDA calls: skipped: only the stand-in runtime can "
                "fail them (make CUDA=standin)\n");
        return -1;
    }
    for (long n = 0; n < MOST_CALLS && successes < ENOUGH_SUCCESSES; n++) {
        flatclip_error err = { FLATCLIP_OK, "" };
        const size_t before = stress_cuda_bytes();
        const flatclip_status status = live_with_failing_call(plan, n, &err);
        fakecuda_reset();
        if (status != FLATCLIP_OK && status != FLATCLIP_ERR_MEMORY) {
            fprintf(plan->out, "faults: FAIL: CUDA call %ld: %s: %s\n", n,
                    flatclip_status_name(status), err.message);
            return 0;
        }
        if (stress_cuda_bytes() != before) {
            fprintf(plan->out, "faults: FAIL: CUDA call %ld: %zu bytes of the device are kept\n", n,
                    stress_cuda_bytes() - before);
            return 0;
        }
        failed += status != FLATCLIP_OK;
        successes = status == FLATCLIP_OK ? successes + 1 : 0;
    }
    fprintf(plan->out, "faults: %ld failing CUDA calls: clean errors, nothing kept\n", failed);
    return failed > 0;
}

#else

void stress_cuda_watch(void)
{
}

size_t stress_cuda_bytes(void)
{
    return 0;
}

void stress_cuda_leak(size_t bytes)
{
    (void)bytes;
}

int stress_cuda_is_emulated(void)
{
    return 0;
}

int stress_fail_cuda_calls(const stress_fault_plan *plan)
{
    fprintf(plan->out, "faults: failing CUDA calls: skipped: this build has no CUDA\n");
    return -1;
}

#endif
