/* Every allocation of loading a model, creating a session and decoding a picture fails once: each
 * time the caller is told MEMORY, and nothing is kept. */
#define _GNU_SOURCE
#include "tests/counting_malloc.h"

#if !CAN_INTERPOSE
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_counted_in_builds_without_sanitizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

enum { DIM = 64 };

/* Runs body with its n-th allocation failing, for n = 0, 1, ... until nothing fails any more. */
static long fail_each(const char *what, flatclip_status (*body)(void *user, flatclip_error *err),
                      void *user)
{
    enum { LIMIT = 100000 };
    flatclip_error settled = { FLATCLIP_OK, "" };
    must(body(user, &settled), &settled); /* the C library keeps stacks of ended threads */
    for (long n = 0; n < LIMIT; n++) {
        flatclip_error err = { FLATCLIP_OK, "" };
        const long blocks = atomic_load(&live_blocks), bytes = atomic_load(&live_bytes);
        atomic_store(&until_failure, n);
        const flatclip_status status = body(user, &err);
        const int happened = atomic_exchange(&until_failure, -1) < 0;
        check_balance(what, blocks, bytes);
        if (!happened) {
            must(status, &err);
            return n;
        }
        /* A failure may be survived; what must not happen is another error, or a silent message. */
        if (status != FLATCLIP_OK && status != FLATCLIP_ERR_MEMORY)
            fail_msg("%s: failing allocation %ld gave %s: %s", what, n,
                     flatclip_status_name(status), err.message);
        if (status == FLATCLIP_ERR_MEMORY && err.message[0] == '\0')
            fail_msg("%s: failing allocation %ld gave no message", what, n);
    }
    fail_msg("%s: more than %d allocations", what, LIMIT);
    return 0;
}

static flatclip_status load_and_free(void *user, flatclip_error *err)
{
    flatclip_model *model = NULL;
    const flatclip_status status = flatclip_model_load(user, NULL, &model, err);
    if (status != FLATCLIP_OK && model)
        return FLATCLIP_ERR_ARGUMENT; /* a failed load must leave the handle NULL */
    flatclip_model_free(model);
    return status;
}

static flatclip_status plan_only(void *user, flatclip_error *err)
{
    return flatclip_plan(user, NULL, NULL, NULL, NULL, NULL, NULL, err);
}

static flatclip_status create_and_free(void *user, flatclip_error *err)
{
    flatclip_session *session = NULL;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = 3;
    options.threads = 3;
    const flatclip_status status = flatclip_session_create(user, &options, &session, err);
    if (status != FLATCLIP_OK && session)
        return FLATCLIP_ERR_ARGUMENT;
    flatclip_session_free(session);
    return status;
}

static void every_failing_allocation_of_a_load_is_clean(void **state)
{
    (void)state;
    char path[] = MODELS "micro.safetensors";
    const long allocations = fail_each("flatclip_model_load", load_and_free, path);
    print_message("flatclip_model_load: %ld allocations\n", allocations);
    printf("note: allocations inside jansson are not made to fail: version 2.14 would abort\n");
    assert_true(allocations > 0);
    assert_true(fail_each("flatclip_plan", plan_only, path) > 0);
}

static void every_failing_allocation_of_a_session_is_clean(void **state)
{
    (void)state;
    flatclip_model *model = load_model("micro", NULL);
    const long allocations = fail_each("flatclip_session_create", create_and_free, model);
    print_message("flatclip_session_create: %ld allocations\n", allocations);
    assert_true(allocations > 0);
    flatclip_model_free(model);
}

/* The decoder's allocations: the item fails with MEMORY, and the session is as good as before. */
static void every_failing_allocation_of_a_picture_is_its_own_error(void **state)
{
    (void)state;
    static const char *const names[] = { "cat_420.jpg", "hubble_progressive.jpg", "cat_cmyk.jpg",
                                         "cat_interlaced.png", "cat_palette_trns.png" };
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 1, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        float row[DIM], expected[DIM];
        char path[128];
        snprintf(path, sizeof path, GOOD_IMAGES "%s", names[i]);
        const char *paths = path;
        flatclip_error err = { FLATCLIP_OK, "" };
        must(flatclip_encode_files(session, &paths, 1, expected, NULL, &err), &err);
        for (long n = 0, happened = 1; happened; n++) {
            const long blocks = atomic_load(&live_blocks), bytes = atomic_load(&live_bytes);
            atomic_store(&until_failure, n);
            const flatclip_status status =
                flatclip_encode_files(session, &paths, 1, row, NULL, &err);
            happened = atomic_exchange(&until_failure, -1) < 0;
            check_balance(path, blocks, bytes);
            if (status == FLATCLIP_OK)
                assert_memory_equal(row, expected, sizeof row);
            else if (!happened || status != FLATCLIP_ERR_MEMORY)
                fail_msg("%s: failing allocation %ld gave %s: %s", path, n,
                         flatclip_status_name(status), err.message);
        }
    }
    flatclip_session_free(session);
    flatclip_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_allocation_of_a_load_is_clean),
        cmocka_unit_test(every_failing_allocation_of_a_session_is_clean),
        cmocka_unit_test(every_failing_allocation_of_a_picture_is_its_own_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
