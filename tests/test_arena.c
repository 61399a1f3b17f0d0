/* The arena: measuring, placing and watching agree, and what cannot fit sticks at SIZE_MAX. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/arena.h"

/* The sanitizer would end the program over an allocation that cannot be had. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

typedef struct {
    size_t count, end;
    int is_wrong;
} watched;

static void watch(void *user, const flatclip_region *region)
{
    watched *w = user;
    w->is_wrong |= region->offset % FC_ARENA_ALIGN != 0 || region->offset < w->end;
    w->end = region->offset + region->bytes;
    w->count++;
}

static void lay_out(fc_arena *arena, void *places[3])
{
    arena->kind = FLATCLIP_REGION_ACTIVATIONS;
    places[0] = fc_arena_take(arena, "a", 10, 7);
    places[1] = fc_arena_take(arena, "b", 1, 1);
    arena->kind = FLATCLIP_REGION_WORKSPACE;
    places[2] = fc_arena_take(arena, "c", 300, sizeof(float));
}

static void what_is_measured_is_what_is_placed(void **state)
{
    (void)state;
    void *unplaced[3], *placed[3];
    watched w = { 0, 0, 0 };
    fc_arena measuring = { .base = NULL, .watch = watch, .watch_user = &w };
    lay_out(&measuring, unplaced);
    assert_null(unplaced[0]);
    assert_int_equal(w.count, 3);
    assert_int_equal(w.is_wrong, 0);
    assert_int_equal(w.end, measuring.used);
    assert_int_equal(measuring.kind_bytes[FLATCLIP_REGION_ACTIVATIONS] +
                         measuring.kind_bytes[FLATCLIP_REGION_WORKSPACE],
                     measuring.used);

    char *block = fc_block_alloc(measuring.used);
    assert_non_null(block);
    fc_arena placing = { .base = block };
    lay_out(&placing, placed);
    assert_int_equal(placing.used, measuring.used);
    assert_ptr_equal(placed[0], block);
    assert_ptr_equal((char *)placed[2] + 300 * sizeof(float), block + measuring.used);
    memset(block, 1, measuring.used); /* all of it is ours: the sanitizer watches */
    fc_block_free(block);
}

static void what_cannot_fit_sticks(void **state)
{
    (void)state;
    fc_arena arena = { .base = NULL, .kind = FLATCLIP_REGION_WEIGHTS };
    fc_arena_take(&arena, "product overflows", SIZE_MAX / 2, 4);
    assert_int_equal(arena.used, SIZE_MAX);
    fc_arena_take(&arena, "one more", 1, 1);
    assert_true(arena.used >= SIZE_MAX - FC_ARENA_ALIGN);
    assert_null(fc_block_alloc(arena.used));

    fc_arena sums = { .base = NULL, .kind = FLATCLIP_REGION_WEIGHTS };
    fc_arena_take(&sums, "half", SIZE_MAX / 2, 1);
    fc_arena_take(&sums, "and more than a half", SIZE_MAX / 2 + 4096, 1);
    assert_int_equal(sums.used, SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_measured_is_what_is_placed),
        cmocka_unit_test(what_cannot_fit_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
