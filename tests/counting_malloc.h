/* malloc and its family (and mmap), defined by the program itself in front of the C library, so
 * that every call from our code, libjpeg, libpng and cJSON is seen, counted, and can be made to
 * fail. For one source file a program. Not under sanitizers, which do the same: CAN_INTERPOSE says.
 */
#ifndef FC_TEST_COUNTING_MALLOC_H
#define FC_TEST_COUNTING_MALLOC_H

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/model_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CAN_INTERPOSE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAN_INTERPOSE 0
#endif
#endif
#ifndef CAN_INTERPOSE
#define CAN_INTERPOSE 1
#endif

#if !CAN_INTERPOSE
static void allocations_are_counted_in_builds_without_sanitizers(void **state)
{
    (void)state;
    printf("note: allocations are not counted under sanitizers or outside glibc\n");
    skip();
}

#else

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static atomic_long calls; /* of any function of the family, freeing included */
static atomic_long live_blocks;
static atomic_long live_bytes;
enum { NEVER = INT_MAX };                 /* more allocations than a test makes */
static atomic_long until_failure = NEVER; /* this many allocations succeed, then one fails */
static atomic_int failure_lasts;          /* whether all that follow fail too */

/* Whether this allocation is one that has to fail. */
static int must_fail(void)
{
    atomic_fetch_add(&calls, 1);
    const long left = atomic_fetch_sub(&until_failure, 1);
    const int fails = left == 0 || (left < 0 && atomic_load(&failure_lasts));
    if (fails)
        errno = ENOMEM;
    return fails;
}

/* Blocks and bytes in use, as far as they went through here. */
static void *count_in(void *block)
{
    if (block) {
        atomic_fetch_add(&live_blocks, 1);
        atomic_fetch_add(&live_bytes, (long)malloc_usable_size(block));
    }
    return block;
}

static void count_out(void *block)
{
    if (block) {
        atomic_fetch_sub(&live_blocks, 1);
        atomic_fetch_sub(&live_bytes, (long)malloc_usable_size(block));
    }
}

/* Shared libraries must find these instead of the C library's. */
#pragma GCC visibility push(default)

void *malloc(size_t bytes)
{
    return must_fail() ? NULL : count_in(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return must_fail() ? NULL : count_in(__libc_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes)
{
    if (must_fail())
        return NULL;
    count_out(block);
    void *moved = __libc_realloc(block, bytes);
    count_in(moved ? moved : bytes ? block : NULL);
    return moved;
}

void *memalign(size_t alignment, size_t bytes)
{
    return must_fail() ? NULL : count_in(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    void *taken = memalign(alignment, bytes);
    if (!taken)
        return ENOMEM;
    *block = taken;
    return 0;
}

void free(void *block)
{
    atomic_fetch_add(&calls, 1);
    count_out(block);
    __libc_free(block);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (must_fail())
        return MAP_FAILED;
    void *block = (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
    if (block != MAP_FAILED) {
        atomic_fetch_add(&live_blocks, 1);
        atomic_fetch_add(&live_bytes, (long)bytes);
    }
    return block;
}

int munmap(void *address, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    atomic_fetch_sub(&live_blocks, 1);
    atomic_fetch_sub(&live_bytes, (long)bytes);
    return (int)syscall(SYS_munmap, address, bytes);
}

#pragma GCC visibility pop

/* Fails the test if anything that was taken since these readings is still held. A block that a
 * library keeps and renews may be 16 bytes longer or shorter the next time: the allocator gives a
 * rest that is too small to split along with it. */
static void check_balance(const char *path, long blocks, long bytes)
{
    if (atomic_load(&live_blocks) != blocks || labs(atomic_load(&live_bytes) - bytes) > 16)
        fail_msg("%s: %ld blocks and %ld bytes were kept", path, atomic_load(&live_blocks) - blocks,
                 atomic_load(&live_bytes) - bytes);
}

#endif
#endif
