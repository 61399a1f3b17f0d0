/* One model, many sessions, many threads: the rows of a serial run, and nothing for ThreadSanitizer
 * to say (CONFIG=tsan). */
#define _GNU_SOURCE
#include <pthread.h>

#include "tests/model_fixture.h"

enum { WORKERS = 4, COUNT = 6, ROUNDS = 5, PICTURE = 224 * 224 * 3, DIM = 64 };

typedef struct {
    const flatclip_model *model;
    uint8_t *pixels; /* [COUNT, 224, 224, 3], this worker's own */
    float expected[COUNT * DIM];
    int threads;  /* of its session */
    int failures; /* calls that failed, and rounds with other bits */
} worker;

/* Creates a session, encodes, asks the model, frees; cmocka must not be called off the main thread.
 */
static void *work(void *argument)
{
    worker *w = argument;
    for (int round = 0; round < ROUNDS; round++) {
        flatclip_session *session = NULL;
        flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
        flatclip_memory memory = FLATCLIP_MEMORY_INIT;
        float rows[COUNT * DIM];
        options.max_batch = 1 + round % 4;
        options.threads = w->threads;
        if (flatclip_session_create(w->model, &options, &session, NULL) != FLATCLIP_OK) {
            w->failures++;
            continue;
        }
        if (flatclip_encode_pixels_u8(session, w->pixels, COUNT, rows, NULL, NULL) != FLATCLIP_OK ||
            memcmp(rows, w->expected, sizeof rows) != 0)
            w->failures++;
        flatclip_session_memory(session, &memory);
        w->failures += memory.total == 0 || flatclip_model_embed_dim(w->model) != DIM;
        flatclip_session_free(session);
    }
    return NULL;
}

/* Runs WORKERS at once, each with session_threads; rows must equal a serial run's. */
static void run_workers(int session_threads)
{
    static worker workers[WORKERS];
    pthread_t threads[WORKERS];
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *serial = open_session(model, 1, 1);
    for (int i = 0; i < WORKERS; i++) {
        worker *w = &workers[i];
        *w = (worker){ .model = model, .threads = session_threads };
        w->pixels = random_pixels(COUNT * PICTURE, 100 + (uint64_t)i);
        must(flatclip_encode_pixels_u8(serial, w->pixels, COUNT, w->expected, NULL, &err), &err);
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(workers[i].failures, 0);
        free(workers[i].pixels);
    }
    flatclip_session_free(serial);
    flatclip_model_free(model);
}

static void sessions_in_threads_equal_a_serial_run(void **state)
{
    (void)state;
    run_workers(1);
}

static void sessions_with_workers_of_their_own_equal_a_serial_run(void **state)
{
    (void)state;
    run_workers(2);
}

/* Files use the pipeline in which decoding and computing overlap. */
static void files_on_several_threads_equal_a_serial_run(void **state)
{
    (void)state;
    static fixture_images images;
    flatclip_error err = { FLATCLIP_OK, "" };
    float serial_rows[35 * DIM], rows[35 * DIM];
    list_images(&images);
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *serial = open_session(model, 1, 1);
    flatclip_session *parallel = open_session(model, 4, 3);
    must(flatclip_encode_files(serial, images.paths, 35, serial_rows, NULL, &err), &err);
    must(flatclip_encode_files(parallel, images.paths, 35, rows, NULL, &err), &err);
    assert_memory_equal(rows, serial_rows, sizeof rows);
    flatclip_session_free(parallel);
    flatclip_session_free(serial);
    flatclip_model_free(model);
}

typedef struct {
    const float *expected;
    size_t next;
    int wrong;
} sequence;

static int check_next(void *user, size_t index, const float *embedding, const flatclip_error *error)
{
    sequence *s = user;
    s->wrong += index != s->next++ || !embedding || (error && error->status != FLATCLIP_OK) ||
                memcmp(embedding, s->expected + index * DIM, DIM * sizeof(float)) != 0;
    return 0;
}

static void results_are_handed_over_in_input_order(void **state)
{
    (void)state;
    static fixture_images images;
    flatclip_error err = { FLATCLIP_OK, "" };
    float rows[35 * DIM];
    list_images(&images);
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 4, 3);
    must(flatclip_encode_files(session, images.paths, 35, rows, NULL, &err), &err);
    sequence s = { rows, 0, 0 };
    must(flatclip_encode_files_each(session, images.paths, 35, check_next, &s, &err), &err);
    assert_int_equal(s.next, 35);
    assert_int_equal(s.wrong, 0);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_in_threads_equal_a_serial_run),
        cmocka_unit_test(sessions_with_workers_of_their_own_equal_a_serial_run),
        cmocka_unit_test(files_on_several_threads_equal_a_serial_run),
        cmocka_unit_test(results_are_handed_over_in_input_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
