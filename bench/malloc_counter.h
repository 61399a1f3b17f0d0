/* malloc and its family (and mmap), defined by the program itself in front of the C library, so
 * that every call from our code, libjpeg, libpng and cJSON is seen, counted, and can be made to
 * fail. Bytes are those asked for, not the allocator's rounding, so that the same work always gives
 * the same number. For one source file a program. Not under sanitizers, which define the same
 * functions: CAN_INTERPOSE says. */
#ifndef FC_MALLOC_COUNTER_H
#define FC_MALLOC_COUNTER_H

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

#if CAN_INTERPOSE

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
    if (atomic_load(&until_failure) == NEVER)
        return 0;
    const long left = atomic_fetch_sub(&until_failure, 1);
    const int fails = left == 0 || (left < 0 && atomic_load(&failure_lasts));
    if (fails)
        errno = ENOMEM;
    return fails;
}

/* Each block is longer by one number at its very end, the bytes that were asked for: the length
 * that the allocator reports may be 16 more the next time, with a rest too small to split off. */
enum { NOTE = sizeof(size_t) };

static char *note_of(void *block)
{
    return (char *)block + malloc_usable_size(block) - NOTE;
}

static void *count_in(void *block, size_t bytes)
{
    if (block) {
        memcpy(note_of(block), &bytes, NOTE);
        atomic_fetch_add(&live_blocks, 1);
        atomic_fetch_add(&live_bytes, (long)bytes);
    }
    return block;
}

static void count_out(void *block)
{
    size_t bytes;
    if (block) {
        memcpy(&bytes, note_of(block), NOTE);
        atomic_fetch_sub(&live_blocks, 1);
        atomic_fetch_sub(&live_bytes, (long)bytes);
    }
}

static size_t with_note(size_t bytes)
{
    return bytes > SIZE_MAX - NOTE ? SIZE_MAX : bytes + NOTE; /* which nobody has */
}

/* Shared libraries must find these instead of the C library's. */
#pragma GCC visibility push(default)

void *malloc(size_t bytes)
{
    return must_fail() ? NULL : count_in(__libc_malloc(with_note(bytes)), bytes);
}

void *calloc(size_t count, size_t size)
{
    const size_t bytes = size && count > SIZE_MAX / size ? SIZE_MAX : count * size;
    return must_fail() ? NULL : count_in(__libc_calloc(1, with_note(bytes)), bytes);
}

void *realloc(void *block, size_t bytes)
{
    if (block && bytes == 0) {
        free(block);
        return NULL;
    }
    if (must_fail())
        return NULL;
    size_t before = 0;
    if (block)
        memcpy(&before, note_of(block), NOTE);
    count_out(block);
    void *moved = __libc_realloc(block, with_note(bytes));
    count_in(moved ? moved : block, moved ? bytes : before);
    return moved;
}

void *memalign(size_t alignment, size_t bytes)
{
    return must_fail() ? NULL : count_in(__libc_memalign(alignment, with_note(bytes)), bytes);
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

#endif
#endif
