/* bench/malloc_counter.h for tests, with what they check. For one source file a program. */
#ifndef FC_TEST_COUNTING_MALLOC_H
#define FC_TEST_COUNTING_MALLOC_H

#include "bench/malloc_counter.h"
#include "tests/model_fixture.h"

#if !CAN_INTERPOSE
static void allocations_are_counted_in_builds_without_sanitizers(void **state)
{
    (void)state;
    printf("note: allocations are not counted under sanitizers or outside glibc\n");
    skip();
}

#else

/* Fails the test if anything that was taken since these readings is still held. */
static void check_balance(const char *path, long blocks, long bytes)
{
    if (atomic_load(&live_blocks) != blocks || atomic_load(&live_bytes) != bytes)
        fail_msg("%s: %ld blocks and %ld bytes were kept", path, atomic_load(&live_blocks) - blocks,
                 atomic_load(&live_bytes) - bytes);
}

#endif
#endif
