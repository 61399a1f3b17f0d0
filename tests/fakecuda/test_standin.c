/* The stand-in runtime itself: it must be no kinder than a device. Work runs late, order is only
 * what streams and events make, what is taken must be given back, and errors behave as the
 * runtime's do. The kernel is one that copies rows. */
#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/launch.h"
#include "tests/fakecuda/fakecuda.h"

enum { COUNT = 64, BYTES = COUNT * sizeof(float) };

/* What every test finds. */
static struct {
    cudaStream_t one, two;
    cudaEvent_t event;
    float *a, *b;       /* on the device */
    float *in, *out;    /* pinned: ones and zeros */
} w;

/* -- Fixture ---------------------------------------------------------------------------------- */

static void fill(float *values, float value)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = value;
}

static int is_filled(const float *values, float value)
{
    for (int i = 0; i < COUNT; i++)
        if (values[i] != value)
            return 0;
    return 1;
}

static void describe(unsigned early)
{
    const fakecuda_machine machine = { .devices = 1, .capability = 80, .multiprocessors = 132,
                                       .memory = 1 << 20, .early = early };
    fakecuda_reset();
    fakecuda_set_machine(&machine);
}

static void open_world(unsigned early)
{
    describe(early);
    memset(&w, 0, sizeof w);
    assert_int_equal(cudaStreamCreateWithFlags(&w.one, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&w.two, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaEventCreateWithFlags(&w.event, cudaEventDisableTiming), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&w.a, BYTES), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&w.b, BYTES), cudaSuccess);
    assert_int_equal(cudaHostAlloc((void **)&w.in, BYTES, cudaHostAllocDefault), cudaSuccess);
    assert_int_equal(cudaHostAlloc((void **)&w.out, BYTES, cudaHostAllocDefault), cudaSuccess);
    fill(w.in, 1);
    fill(w.out, 0);
}

/* Returns how many things are left that a test has taken besides. */
static long close_world(void)
{
    fakecuda_reset();
    cudaFree(w.a);
    cudaFree(w.b);
    cudaFreeHost(w.in);
    cudaFreeHost(w.out);
    cudaEventDestroy(w.event);
    cudaStreamDestroy(w.one);
    cudaStreamDestroy(w.two);
    const fakecuda_holdings held = fakecuda_get_holdings();
    return held.device_blocks + held.pinned_blocks + held.streams + held.events + held.graphs +
           held.executables;
}

static int set_up(void **state)
{
    (void)state;
    open_world(0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return close_world() != 0;
}

/* Everything anew, for a test that needs it several times. */
static void begin_again(unsigned early)
{
    assert_int_equal(close_world(), 0);
    open_world(early);
}

static void upload(float *to, const float *from, cudaStream_t stream)
{
    assert_int_equal(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyHostToDevice, stream), cudaSuccess);
}

static void download(float *to, const float *from, cudaStream_t stream)
{
    assert_int_equal(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToHost, stream), cudaSuccess);
}

static void launch_copy(float *to, const float *from, cudaStream_t stream)
{
    fc_launch_gather(stream, to, BYTES, from, BYTES, 1, 1, BYTES);
}

static void wait_for(cudaStream_t stream)
{
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
}

static void expect_finding(const char *part)
{
    if (!strstr(fakecuda_finding(), part))
        fail_msg("the finding is \"%s\", without \"%s\"", fakecuda_finding(), part);
}

static void expect_no_finding(void)
{
    assert_string_equal(fakecuda_finding(), "");
}

/* -- Order ------------------------------------------------------------------------------------ */

static void nothing_runs_before_somebody_waits(void **state)
{
    (void)state;
    upload(w.a, w.in, w.one);
    launch_copy(w.b, w.a, w.one);
    download(w.out, w.b, w.one);
    assert_int_equal(cudaEventRecord(w.event, w.one), cudaSuccess);
    assert_true(is_filled(w.out, 0));
    assert_int_equal(fakecuda_get_counts().kernels, 0);
    wait_for(w.two); /* of which it is no part */
    assert_true(is_filled(w.out, 0));
    wait_for(w.one);
    assert_true(is_filled(w.out, 1));
    assert_int_equal(fakecuda_get_counts().kernels, 1);
    assert_int_equal(cudaEventQuery(w.event), cudaSuccess);
    expect_no_finding();
}

/* A buffer that is filled again before its copy was waited for is seen with what is new. */
static void pinned_memory_is_read_late(void **state)
{
    (void)state;
    upload(w.a, w.in, w.one);
    fill(w.in, 2);
    download(w.out, w.a, w.one);
    wait_for(w.one);
    assert_true(is_filled(w.out, 2));
}

static void an_event_waits_for_what_is_before_it_alone(void **state)
{
    (void)state;
    upload(w.a, w.in, w.one);
    download(w.out, w.a, w.one);
    assert_int_equal(cudaEventRecord(w.event, w.one), cudaSuccess);
    fill(w.in, 2);
    assert_int_equal(cudaMemsetAsync(w.a, 0, BYTES, w.one), cudaSuccess);
    download(w.out, w.a, w.one);
    assert_int_equal(cudaEventSynchronize(w.event), cudaSuccess);
    assert_true(is_filled(w.out, 2));
    wait_for(w.one);
    assert_true(is_filled(w.out, 0));
    expect_no_finding();
}

static void asking_goes_on_until_an_event_is_reached(void **state)
{
    (void)state;
    int questions = 0;
    upload(w.a, w.in, w.one);
    download(w.out, w.a, w.one);
    assert_int_equal(cudaEventRecord(w.event, w.one), cudaSuccess);
    while (cudaEventQuery(w.event) == cudaErrorNotReady)
        assert_true(++questions < 10);
    assert_true(questions > 0);
    assert_true(is_filled(w.out, 1));
    expect_no_finding();
}

/* -- Between streams -------------------------------------------------------------------------- */

static void waiting_for_an_event_makes_order(void **state)
{
    (void)state;
    upload(w.a, w.in, w.one);
    assert_int_equal(cudaEventRecord(w.event, w.one), cudaSuccess);
    assert_int_equal(cudaStreamWaitEvent(w.two, w.event, 0), cudaSuccess);
    launch_copy(w.b, w.a, w.two);
    download(w.out, w.b, w.two);
    wait_for(w.two);
    assert_true(is_filled(w.out, 1));
    expect_no_finding();
}

static void reading_without_a_wait_finds_memory_that_nobody_wrote(void **state)
{
    (void)state;
    upload(w.a, w.in, w.one);
    launch_copy(w.b, w.a, w.two);
    assert_int_equal(cudaStreamSynchronize(w.two), cudaErrorIllegalAddress);
    expect_finding("UNINITIALISED");
}

static void reading_without_a_wait_gets_what_was_there_before(void **state)
{
    (void)state;
    upload(w.a, w.in, w.one);
    wait_for(w.one);
    fill(w.in, 2);
    upload(w.a, w.in, w.one);
    download(w.out, w.a, w.two);
    wait_for(w.two);
    assert_true(is_filled(w.out, 1));
}

/* Stream two is to overwrite a after stream one has read it. Where two runs early, only an event
 * makes it so. */
static float overwritten_too_early(int with_event)
{
    begin_again(2);
    upload(w.a, w.in, w.one);
    wait_for(w.one);
    fill(w.in, 2);
    launch_copy(w.b, w.a, w.one);
    if (with_event) {
        assert_int_equal(cudaEventRecord(w.event, w.one), cudaSuccess);
        assert_int_equal(cudaStreamWaitEvent(w.two, w.event, 0), cudaSuccess);
    }
    upload(w.a, w.in, w.two);
    download(w.out, w.b, w.one);
    wait_for(w.one);
    const float got = w.out[0];
    assert_true(is_filled(w.out, got));
    expect_no_finding();
    return got;
}

static void an_early_stream_overwrites_what_is_still_to_be_read(void **state)
{
    (void)state;
    assert_true(overwritten_too_early(0) == 2);
    assert_true(overwritten_too_early(1) == 1);
}

/* cudaMemcpy waits for streams of one kind, and ours are of the other. */
static void a_plain_copy_waits_for_no_stream_of_ours(void **state)
{
    (void)state;
    cudaStream_t blocking;
    float got[COUNT];
    upload(w.a, w.in, w.one);
    wait_for(w.one);
    fill(w.in, 2);
    upload(w.a, w.in, w.one);
    assert_int_equal(cudaMemcpy(got, w.a, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_true(is_filled(got, 1));
    wait_for(w.one);

    fill(w.in, 3);
    assert_int_equal(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault), cudaSuccess);
    upload(w.a, w.in, blocking);
    assert_int_equal(cudaMemcpy(got, w.a, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_true(is_filled(got, 3));
    cudaStreamDestroy(blocking);
}

/* -- Memory ----------------------------------------------------------------------------------- */

static void frozen_nothing_can_be_taken(void **state)
{
    (void)state;
    void *block = NULL;
    cudaStream_t stream = NULL;
    cudaEvent_t event = NULL;
    fakecuda_freeze();
    assert_int_equal(cudaMalloc(&block, 16), cudaErrorNotPermitted);
    expect_finding("cudaMalloc");
    assert_int_equal(cudaHostAlloc(&block, 16, 0), cudaErrorNotPermitted);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, 0), cudaErrorNotPermitted);
    assert_int_equal(cudaEventCreateWithFlags(&event, 0), cudaErrorNotPermitted);
    assert_int_equal(cudaStreamBeginCapture(w.one, cudaStreamCaptureModeThreadLocal),
                     cudaErrorNotPermitted);
    assert_int_equal(cudaMemcpy(w.a, w.in, BYTES, cudaMemcpyHostToDevice), cudaErrorNotPermitted);
    assert_null(block);
    assert_null(stream);
    assert_null(event);
    assert_int_equal(fakecuda_get_counts().others, 7 + 6); /* those that opened the world, too */

    upload(w.a, w.in, w.one); /* what encoding does goes on */
    wait_for(w.one);
}

static void pageable_copies_are_counted_and_frozen_refused(void **state)
{
    (void)state;
    float pageable[COUNT];
    fill(pageable, 1);
    upload(w.a, w.in, w.one);
    assert_int_equal(fakecuda_get_counts().pageable, 0);
    upload(w.a, pageable, w.one);
    assert_int_equal(fakecuda_get_counts().pageable, 1);
    wait_for(w.one);
    expect_no_finding();
    fakecuda_freeze();
    assert_int_equal(cudaMemcpyAsync(pageable, w.a, BYTES, cudaMemcpyDeviceToHost, w.one),
                     cudaErrorNotPermitted);
    expect_finding("pageable");
}

static void a_kernel_that_uses_freed_memory_is_found(void **state)
{
    (void)state;
    float *freed, *next;
    assert_int_equal(cudaMalloc((void **)&freed, BYTES), cudaSuccess);
    upload(freed, w.in, w.one);
    assert_int_equal(cudaFree(freed), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&next, BYTES), cudaSuccess);
    assert_ptr_not_equal(next, freed);
    launch_copy(w.b, freed, w.one);
    assert_int_equal(cudaStreamSynchronize(w.one), cudaErrorIllegalAddress);
    expect_finding("was released");
    fakecuda_reset();
    cudaFree(next);
}

static void copies_beyond_a_block_and_double_frees_are_found(void **state)
{
    (void)state;
    void *block;
    assert_int_equal(cudaMemcpyAsync(w.a, w.in, BYTES + 1, cudaMemcpyHostToDevice, w.one),
                     cudaErrorInvalidValue);
    expect_finding("leaves the device's blocks");
    fakecuda_reset();
    assert_int_equal(cudaMalloc(&block, 16), cudaSuccess);
    assert_int_equal(cudaFree(block), cudaSuccess);
    assert_int_equal(cudaFree(block), cudaErrorInvalidValue);
    expect_finding("cudaFree");
}

static void what_is_left_is_counted(void **state)
{
    (void)state;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    assert_int_equal(cudaStreamBeginCapture(w.one, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    assert_int_equal(cudaStreamEndCapture(w.one, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    const fakecuda_holdings held = fakecuda_get_holdings();
    assert_int_equal(held.device_blocks, 2);
    assert_int_equal(held.device_bytes, 2 * BYTES);
    assert_int_equal(held.pinned_blocks, 2);
    assert_int_equal(held.pinned_bytes, 2 * BYTES);
    assert_int_equal(held.streams, 2);
    assert_int_equal(held.events, 1);
    assert_int_equal(held.graphs, 1);
    assert_int_equal(held.executables, 1);
    cudaGraphDestroy(graph);
    cudaGraphExecDestroy(executable);
}

static void a_device_has_no_more_than_its_memory(void **state)
{
    (void)state;
    void *block;
    size_t left, total;
    assert_int_equal(cudaMemGetInfo(&left, &total), cudaSuccess);
    assert_int_equal(left, total - 2 * BYTES);
    assert_int_equal(cudaMalloc(&block, left + 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&block, left), cudaSuccess);
    cudaFree(block);
}

/* -- Graphs ----------------------------------------------------------------------------------- */

static cudaGraphExec_t record_a_copy(void)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    assert_int_equal(cudaStreamBeginCapture(w.one, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    launch_copy(w.b, w.a, w.one);
    download(w.out, w.b, w.one);
    assert_int_equal(cudaStreamEndCapture(w.one, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    return executable;
}

/* Recording runs nothing; each replay reads what lies in its buffers then, in its stream's order. */
static void a_replayed_recording_does_what_its_calls_do(void **state)
{
    (void)state;
    cudaGraphExec_t executable = record_a_copy();
    wait_for(w.one);
    assert_int_equal(fakecuda_get_counts().kernels, 0);
    for (int turn = 1; turn <= 3; turn++) {
        fill(w.in, (float)turn);
        upload(w.a, w.in, w.one);
        assert_int_equal(cudaGraphLaunch(executable, w.one), cudaSuccess);
        assert_true(is_filled(w.out, (float)turn - 1));
        wait_for(w.one);
        assert_true(is_filled(w.out, (float)turn));
        assert_int_equal(fakecuda_get_counts().kernels, turn);
    }
    expect_no_finding();
    cudaGraphExecDestroy(executable);
}

/* What waits for the device, or takes memory, spoils a recording, as the runtime has it. */
static void recording_forbids_taking_and_waiting(void **state)
{
    (void)state;
    for (int call = 0; call < 3; call++) {
        begin_again(0);
        cudaGraph_t graph = NULL;
        void *block = NULL;
        assert_int_equal(cudaStreamBeginCapture(w.one, cudaStreamCaptureModeThreadLocal),
                         cudaSuccess);
        launch_copy(w.b, w.a, w.one);
        const cudaError_t error = call == 0   ? cudaMalloc(&block, 16)
                                  : call == 1 ? cudaStreamSynchronize(w.one)
                                              : cudaDeviceSynchronize();
        assert_int_equal(error, cudaErrorStreamCaptureUnsupported);
        assert_int_equal(cudaStreamEndCapture(w.one, &graph), cudaErrorStreamCaptureInvalidated);
        assert_null(graph);
        assert_null(block);
        expect_finding("is recorded");
    }
}

/* -- Errors ----------------------------------------------------------------------------------- */

static void an_error_of_a_kernel_stays(void **state)
{
    (void)state;
    void *block = NULL;
    launch_copy(w.b, w.a, w.one); /* nobody has written a */
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(w.one), cudaErrorIllegalAddress);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
        assert_int_equal(cudaMalloc(&block, 16), cudaErrorIllegalAddress);
        assert_int_equal(cudaStreamSynchronize(w.two), cudaErrorIllegalAddress);
        assert_int_equal(cudaMemcpyAsync(w.a, w.in, BYTES, cudaMemcpyHostToDevice, w.two),
                         cudaErrorIllegalAddress);
    }
    assert_int_equal(cudaFree(w.a), cudaErrorIllegalAddress); /* given back all the same */
    assert_int_equal(fakecuda_get_holdings().device_blocks, 1);
    w.a = NULL;
}

/* Every call of a small program in turn: it fails and has no effect, the others are as ever. */
static void only_the_chosen_call_fails(void **state)
{
    (void)state;
    for (int chosen = 0; chosen < 5; chosen++) {
        begin_again(0);
        cudaError_t got[5];
        upload(w.a, w.in, w.one);
        wait_for(w.one);
        fill(w.in, 2);
        fakecuda_reset();
        fakecuda_fail_at(chosen, cudaErrorLaunchFailure);
        got[0] = cudaMemcpyAsync(w.a, w.in, BYTES, cudaMemcpyHostToDevice, w.one);
        launch_copy(w.b, w.a, w.one);
        got[1] = cudaGetLastError();
        if (chosen == 0) { /* seen here too, as the runtime keeps the last error; once */
            assert_int_equal(got[1], cudaErrorLaunchFailure);
            got[1] = cudaGetLastError();
        }
        got[2] = cudaMemcpyAsync(w.out, w.b, BYTES, cudaMemcpyDeviceToHost, w.one);
        got[3] = cudaEventRecord(w.event, w.one);
        got[4] = cudaStreamSynchronize(w.one);
        for (int i = 0; i < 5; i++)
            assert_int_equal(got[i], i == chosen ? cudaErrorLaunchFailure : cudaSuccess);
        if (chosen != 4) /* else nobody has waited */
            assert_int_equal(fakecuda_get_counts().kernels, chosen != 1);
        wait_for(w.one);
        if (chosen != 1)
            assert_true(is_filled(w.out, chosen == 0 ? 1 : chosen == 2 ? 0 : 2));
        expect_no_finding();
    }
}

static void a_failed_call_takes_nothing(void **state)
{
    (void)state;
    void *block = NULL;
    fakecuda_reset();
    fakecuda_fail_at(0, cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&block, 16), cudaErrorMemoryAllocation);
    assert_null(block);
    assert_int_equal(cudaMalloc(&block, 16), cudaSuccess);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    cudaFree(block);
}

#define STANDIN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STANDIN_TEST(nothing_runs_before_somebody_waits),
        STANDIN_TEST(pinned_memory_is_read_late),
        STANDIN_TEST(an_event_waits_for_what_is_before_it_alone),
        STANDIN_TEST(asking_goes_on_until_an_event_is_reached),
        STANDIN_TEST(waiting_for_an_event_makes_order),
        STANDIN_TEST(reading_without_a_wait_finds_memory_that_nobody_wrote),
        STANDIN_TEST(reading_without_a_wait_gets_what_was_there_before),
        STANDIN_TEST(an_early_stream_overwrites_what_is_still_to_be_read),
        STANDIN_TEST(a_plain_copy_waits_for_no_stream_of_ours),
        STANDIN_TEST(frozen_nothing_can_be_taken),
        STANDIN_TEST(pageable_copies_are_counted_and_frozen_refused),
        STANDIN_TEST(a_kernel_that_uses_freed_memory_is_found),
        STANDIN_TEST(copies_beyond_a_block_and_double_frees_are_found),
        STANDIN_TEST(what_is_left_is_counted),
        STANDIN_TEST(a_device_has_no_more_than_its_memory),
        STANDIN_TEST(a_replayed_recording_does_what_its_calls_do),
        STANDIN_TEST(recording_forbids_taking_and_waiting),
        STANDIN_TEST(an_error_of_a_kernel_stays),
        STANDIN_TEST(only_the_chosen_call_fails),
        STANDIN_TEST(a_failed_call_takes_nothing),
    };
    return cmocka_run_group_tests_name("standin", tests, NULL, NULL);
}
