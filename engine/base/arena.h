/* A bump allocator that also works without memory: with base NULL it only adds up sizes. The same
 * layout function therefore measures, places and (with a watcher) lists, and the three cannot
 * disagree. */
#ifndef FC_ARENA_H
#define FC_ARENA_H

#include "flatclip.h"

#define FC_ARENA_ALIGN 256 /* bytes; cudaMalloc's own alignment, and four cache lines */

typedef struct {
    char *base;                 /* NULL while measuring; aligned to FC_ARENA_ALIGN otherwise */
    size_t used;                /* bytes so far */
    flatclip_region_kind kind;  /* what the next regions are */
    flatclip_region_place place; /* where the arena lies */
    flatclip_region_fn *watch;  /* sees every region, or NULL */
    void *watch_user;
    size_t kind_bytes[4];       /* bytes by flatclip_region_kind, padding included */
} fc_arena;

/* Takes count elements of size bytes, aligned; returns NULL while measuring. A total that would
 * not fit in size_t sticks at SIZE_MAX, which no allocation can satisfy. */
void *fc_arena_take(fc_arena *arena, const char *name, size_t count, size_t size);

/* One allocation for an arena: aligned to 2 MiB and advised to use huge pages when it is that
 * large. Returns NULL without memory. Pages are not touched. Freed with fc_block_free. */
void *fc_block_alloc(size_t bytes);
void fc_block_free(void *block);

#endif
