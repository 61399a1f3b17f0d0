/* The bump allocator, and the one allocation that it hands out. */
#define _GNU_SOURCE
#include "engine/base/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

static size_t saturating_add(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

void *fc_arena_take(fc_arena *arena, const char *name, size_t count, size_t size)
{
    const size_t bytes = size && count > SIZE_MAX / size ? SIZE_MAX : count * size;
    const size_t at =
        saturating_add(arena->used, FC_ARENA_ALIGN - 1) & ~(size_t)(FC_ARENA_ALIGN - 1);
    const size_t end = saturating_add(at, bytes);

    arena->kind_bytes[arena->kind] =
        saturating_add(arena->kind_bytes[arena->kind], end - arena->used);
    arena->used = end;
    if (arena->watch) {
        const flatclip_region region = { arena->kind, name, at, bytes, arena->place };
        arena->watch(arena->watch_user, &region);
    }
    return arena->base ? arena->base + at : NULL;
}

void *fc_block_alloc(size_t bytes)
{
    void *block = NULL;
    if (posix_memalign(&block, bytes >= HUGE_PAGE ? HUGE_PAGE : FC_ARENA_ALIGN, bytes ? bytes : 1))
        return NULL;
    /* A hint: without huge pages the block is only slower. The last, broken page is left out. */
    if (bytes >= HUGE_PAGE)
        madvise(block, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return block;
}

void fc_block_free(void *block)
{
    free(block);
}
