/* Options that grow: callers compiled with an older or a newer header are served or refused, never
 * misread. And every option out of its range is refused by name. */
#define _GNU_SOURCE
#include "tests/model_fixture.h"

/* What a later header might have. */
typedef struct {
    flatclip_session_options known;
    uint64_t unknown;
} newer_options;

static flatclip_status create(const flatclip_model *model, const void *options, flatclip_error *err)
{
    flatclip_session *session = NULL;
    const flatclip_status status = flatclip_session_create(model, options, &session, err);
    assert_true((status == FLATCLIP_OK) == (session != NULL));
    flatclip_session_free(session);
    return status;
}

static void newer_callers_are_served_if_they_ask_for_nothing_new(void **state)
{
    (void)state;
    flatclip_error err;
    flatclip_model *model = load_model("micro", NULL);
    newer_options options = { FLATCLIP_SESSION_OPTIONS_INIT, 0 };
    options.known.struct_size = sizeof options;
    options.known.max_batch = 1;
    assert_int_equal(create(model, &options, &err), FLATCLIP_OK);
    options.unknown = 1;
    assert_int_equal(create(model, &options, &err), FLATCLIP_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "flatclip_session_options"));
    flatclip_model_free(model);
}

static void older_callers_get_defaults_for_what_they_do_not_know(void **state)
{
    (void)state;
    flatclip_error err;
    flatclip_model *model = load_model("micro", NULL);
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = 2;
    options.threads = -5; /* beyond the end of the caller's struct: must not be looked at */
    options.struct_size = offsetof(flatclip_session_options, threads);
    assert_int_equal(create(model, &options, &err), FLATCLIP_OK);
    options.struct_size = 0;
    assert_int_equal(create(model, &options, &err), FLATCLIP_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "INIT"));
    flatclip_model_free(model);
}

static void a_small_struct_is_not_written_beyond_its_end(void **state)
{
    (void)state;
    flatclip_model *model = load_model("micro", NULL);
    flatclip_memory memory = FLATCLIP_MEMORY_INIT;
    memory.struct_size = offsetof(flatclip_memory, activations);
    memory.total = 77;
    flatclip_model_memory(model, &memory);
    assert_true(memory.weights > 0);
    assert_int_equal(memory.total, 77);
    flatclip_model_free(model);
}

static void values_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int max_batch, threads, recipe;
    } wrong[] = {
        { "max_batch", -1, 0, 0 }, { "max_batch", 1025, 0, 0 }, { "threads", 0, 257, 0 },
        { "threads", 0, -1, 0 },   { "recipe", 0, 0, 3 },
    };
    flatclip_error err;
    flatclip_model *model = load_model("micro", NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
        options.max_batch = wrong[i].max_batch;
        options.threads = wrong[i].threads;
        options.recipe = (flatclip_recipe)wrong[i].recipe;
        assert_int_equal(create(model, &options, &err), FLATCLIP_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, wrong[i].name));
    }
    flatclip_model_free(model);

    flatclip_model_options options = FLATCLIP_MODEL_OPTIONS_INIT;
    options.precision = FLATCLIP_PRECISION_BF16;
    assert_int_equal(flatclip_model_load(model_path("micro"), &options, &model, &err),
                     FLATCLIP_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "bf16"));
    assert_null(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_callers_are_served_if_they_ask_for_nothing_new),
        cmocka_unit_test(older_callers_get_defaults_for_what_they_do_not_know),
        cmocka_unit_test(a_small_struct_is_not_written_beyond_its_end),
        cmocka_unit_test(values_out_of_range_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
