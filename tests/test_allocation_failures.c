/* Every allocation of loading, planning, creating a session, converting and decoding fails, alone
 * or with all that follow: each time the caller is told MEMORY, and nothing is kept. */
#define _GNU_SOURCE
#include "tests/counting_malloc.h"

#include <openssl/crypto.h>

#include "tests/temp_folder.h"
#include "weights_tools/convert.h"
#include "weights_tools/synth.h"

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

typedef flatclip_status fallible(void *user, flatclip_error *err);

/* Runs body with its n-th allocation failing. Returns whether there was one. */
static int fail_one(const char *what, fallible *body, void *user, long n)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    const long blocks = atomic_load(&live_blocks), bytes = atomic_load(&live_bytes);
    atomic_store(&until_failure, n);
    const flatclip_status status = body(user, &err);
    const int happened = atomic_exchange(&until_failure, NEVER) < 0;
    check_balance(what, blocks, bytes);
    if (!happened)
        must(status, &err);
    /* A failure may be survived; what must not happen is another error, or a silent message. Where
     * the system reports it, as fopen does, the error is IO with its words. */
    const int said = status == FLATCLIP_ERR_IO && strstr(err.message, strerror(ENOMEM));
    if (status != FLATCLIP_OK && status != FLATCLIP_ERR_MEMORY && !said)
        fail_msg("%s: failing allocation %ld gave %s: %s", what, n, flatclip_status_name(status),
                 err.message);
    if (status == FLATCLIP_ERR_MEMORY && err.message[0] == '\0')
        fail_msg("%s: failing allocation %ld gave no message", what, n);
    return happened;
}

/* Runs body with its n-th allocation failing, for n = 0, 1, ... until nothing fails any more: first
 * that one alone, then it and all that follow. */
static void fail_each(const char *what, fallible *body, void *user)
{
    enum { LIMIT = 100000 };
    flatclip_error settled = { FLATCLIP_OK, "" };
    must(body(user, &settled), &settled); /* the C library keeps stacks of ended threads */
    for (int lasts = 0; lasts < 2; lasts++) {
        long n = 0;
        atomic_store(&failure_lasts, lasts);
        while (n < LIMIT && fail_one(what, body, user, n))
            n++;
        atomic_store(&failure_lasts, 0);
        print_message("%s: %ld allocations failed%s\n", what, n,
                      lasts ? " with all that follow" : "");
        assert_true(n > 0 && n < LIMIT);
    }
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
    fail_each("flatclip_model_load", load_and_free, path);
    fail_each("flatclip_plan", plan_only, path);
}

static void every_failing_allocation_of_a_session_is_clean(void **state)
{
    (void)state;
    flatclip_model *model = load_model("micro", NULL);
    fail_each("flatclip_session_create", create_and_free, model);
    flatclip_model_free(model);
}

typedef struct {
    const temp_folder *folder;
    const char *source;
} conversion;

static flatclip_status convert_checkpoint(void *user, flatclip_error *err)
{
    static const fc_convert_options options = { FC_BF16, 0, FLATCLIP_ACTIVATION_QUICKGELU, 0 };
    const conversion *c = user;
    char path[PATH_MAX];
    const flatclip_status status = fc_convert(c->source, &options,
                                              temp_path(c->folder, "out.safetensors", path), NULL,
                                              err);
    OPENSSL_thread_stop(); /* libcrypto keeps a queue of errors, with copies of file names */
    return status;
}

/* With a configuration, from an archive with code, from views and from pickles of old. */
static void every_failing_allocation_of_a_conversion_is_clean(void **state)
{
    static const char *const sources[] = { "hf", "openai_jit_fp16.pt", "views.pt", "deflated.pt",
                                           "openai_state_legacy.pt" };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        char source[PATH_MAX];
        conversion c = { *state, source };
        snprintf(source, sizeof source, "tests/data/checkpoints/%s", sources[i]);
        fail_each(sources[i], convert_checkpoint, &c);
        assert_int_equal(count_temp_files(*state), 1); /* the model, and nothing half written */
    }
}

/* The built-in vocabulary is inflated. */
static flatclip_status write_synth(void *folder, flatclip_error *err)
{
    char path[PATH_MAX];
    const flatclip_status status = fc_synth_write("tiny", 1, FC_F16,
                                                  temp_path(folder, "tiny.safetensors", path), err);
    OPENSSL_thread_stop();
    return status;
}

static void every_failing_allocation_of_a_vocabulary_is_clean(void **state)
{
    fail_each("fc_synth_write", write_synth, *state);
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
            happened = atomic_exchange(&until_failure, NEVER) < 0;
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
        cmocka_unit_test_setup_teardown(every_failing_allocation_of_a_conversion_is_clean,
                                        make_temp_folder, remove_temp_folder),
        cmocka_unit_test_setup_teardown(every_failing_allocation_of_a_vocabulary_is_clean,
                                        make_temp_folder, remove_temp_folder),
        cmocka_unit_test(every_failing_allocation_of_a_picture_is_its_own_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
