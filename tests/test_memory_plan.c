/* The memory plan is what is allocated: its totals are the session's, its regions lie side by side,
 * and it depends on nothing but the model's shape and the options. */
#define _GNU_SOURCE
#include "tests/model_fixture.h"

enum { MAX_REGIONS = 4096 };

typedef struct {
    int count;
    flatclip_region region[MAX_REGIONS];
} region_list;

static void collect(void *user, const flatclip_region *region)
{
    region_list *list = user;
    assert_true(list->count < MAX_REGIONS);
    assert_non_null(region->name);
    assert_true(region->name[0] != '\0');
    list->region[list->count++] = *region;
}

/* Weights are one allocation, activations and workspace together the other. */
static int same_block(const flatclip_region *a, const flatclip_region *b)
{
    return (a->kind == FLATCLIP_REGION_WEIGHTS) == (b->kind == FLATCLIP_REGION_WEIGHTS);
}

static flatclip_memory plan(const char *name, int max_batch, int threads, region_list *regions)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_memory memory = FLATCLIP_MEMORY_INIT;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = max_batch;
    options.threads = threads;
    if (regions)
        regions->count = 0;
    must(flatclip_plan(model_path(name), NULL, &options, NULL, &memory, regions ? collect : NULL,
                       regions, &err),
         &err);
    return memory;
}

static void plan_is_what_a_session_holds(void **state)
{
    (void)state;
    static const char *const names[] = { "micro", "tiny", "tiny-b16", "tiny-l14-336" };
    static const int batches[] = { 1, 7, 32 };
    for (size_t n = 0; n < 4; n++) {
        flatclip_model *model = load_model(names[n], NULL);
        for (size_t b = 0; b < 3; b++)
            for (int threads = 1; threads <= 2; threads++) {
                const flatclip_memory planned = plan(names[n], batches[b], threads, NULL);
                flatclip_memory held = FLATCLIP_MEMORY_INIT;
                flatclip_session *session = open_session(model, batches[b], threads);
                flatclip_session_memory(session, &held);
                assert_int_equal(planned.weights, held.weights);
                assert_int_equal(planned.activations, held.activations);
                assert_int_equal(planned.workspace, held.workspace);
                assert_int_equal(planned.total, held.total);
                assert_int_equal(planned.device, held.device);
                assert_int_equal(held.total, held.weights + held.activations + held.workspace);
                flatclip_session_free(session);
            }
        flatclip_memory alone = FLATCLIP_MEMORY_INIT;
        flatclip_model_memory(model, &alone);
        assert_int_equal(alone.weights, plan(names[n], 1, 1, NULL).weights);
        assert_int_equal(alone.total, alone.weights);
        flatclip_model_free(model);
    }
}

static void regions_lie_side_by_side_and_fill_the_totals(void **state)
{
    (void)state;
    static region_list list;
    const flatclip_memory memory = plan("tiny", 7, 2, &list);
    size_t weights_end = 0, session_end = 0, weights_bytes = 0, session_bytes = 0;
    assert_true(list.count > 10);
    for (int i = 0; i < list.count; i++) {
        const flatclip_region *r = &list.region[i];
        const int is_weight = r->kind == FLATCLIP_REGION_WEIGHTS;
        size_t *end = is_weight ? &weights_end : &session_end;
        *end = r->offset + r->bytes > *end ? r->offset + r->bytes : *end;
        *(is_weight ? &weights_bytes : &session_bytes) += r->bytes;
        assert_int_equal(r->offset % 64, 0);
        for (int k = 0; k < i; k++) {
            const flatclip_region *other = &list.region[k];
            if (same_block(r, other) && r->offset < other->offset + other->bytes &&
                other->offset < r->offset + r->bytes)
                fail_msg("region %d overlaps region %d", i, k);
        }
    }
    assert_int_equal(memory.weights, weights_end);
    assert_int_equal(memory.activations + memory.workspace, session_end);
    assert_true(weights_bytes <= memory.weights);
    assert_true(session_bytes <= memory.activations + memory.workspace);
    /* What is in no region is padding: less than one alignment unit a region. */
    assert_true(memory.weights + memory.activations + memory.workspace - weights_bytes -
                    session_bytes <
                (size_t)list.count * 256);
}

static void plan_grows_with_max_batch_and_nothing_else_changes_it(void **state)
{
    (void)state;
    flatclip_memory last = plan("tiny", 1, 1, NULL);
    for (int batch = 2; batch <= 1024; batch = batch < 40 ? batch + 1 : batch * 2) {
        const flatclip_memory memory = plan("tiny", batch, 1, NULL);
        assert_int_equal(memory.weights, last.weights);
        assert_true(memory.activations >= last.activations);
        assert_true(memory.workspace >= last.workspace);
        assert_true(memory.total > last.total);
        const flatclip_memory again = plan("tiny", batch, 1, NULL);
        assert_memory_equal(&memory, &again, sizeof memory);
        last = memory;
    }
}

static void encoding_does_not_change_the_counts(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_memory before = FLATCLIP_MEMORY_INIT, after = FLATCLIP_MEMORY_INIT;
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 3, 2);
    uint8_t *pixels = random_pixels(5 * 224 * 224 * 3, 4);
    float rows[5 * 64];
    flatclip_session_memory(session, &before);
    for (size_t count = 0; count <= 5; count++)
        must(flatclip_encode_pixels_u8(session, pixels, count, rows, NULL, &err), &err);
    flatclip_session_memory(session, &after);
    assert_memory_equal(&before, &after, sizeof before);
    free(pixels);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

/* A caller compiled against an older, shorter struct keeps the bytes behind it. */
static void shorter_structs_are_filled_as_far_as_they_go(void **state)
{
    (void)state;
    flatclip_memory memory = { offsetof(flatclip_memory, workspace), 1, 2, 3, 4, 5 };
    flatclip_model *model = load_model("micro", NULL);
    flatclip_model_memory(model, &memory);
    assert_true(memory.weights > 5);
    assert_int_equal(memory.workspace, 3);
    assert_int_equal(memory.total, 4);
    assert_int_equal(memory.device, 5);
    flatclip_model_free(model);
}

static void plan_of_a_missing_file_says_so(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    assert_int_equal(flatclip_plan("no/such.safetensors", NULL, NULL, NULL, NULL, NULL, NULL, &err),
                     FLATCLIP_ERR_IO);
    assert_non_null(strstr(err.message, "no/such.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_is_what_a_session_holds),
        cmocka_unit_test(regions_lie_side_by_side_and_fill_the_totals),
        cmocka_unit_test(plan_grows_with_max_batch_and_nothing_else_changes_it),
        cmocka_unit_test(encoding_does_not_change_the_counts),
        cmocka_unit_test(shorter_structs_are_filled_as_far_as_they_go),
        cmocka_unit_test(plan_of_a_missing_file_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
