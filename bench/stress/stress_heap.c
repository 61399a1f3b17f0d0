/* The heap counters of the stress program: its own malloc, or the sanitizer's numbers. */
#define _GNU_SOURCE
#include "bench/stress/stress_heap.h"

#include "bench/malloc_counter.h"

#if CAN_INTERPOSE

const char *stress_heap_source(void)
{
    return "interposed malloc";
}

size_t stress_heap_bytes(void)
{
    return (size_t)atomic_load(&live_bytes);
}

size_t stress_heap_blocks(void)
{
    return (size_t)atomic_load(&live_blocks);
}

int stress_heap_can_fail(void)
{
    return atomic_load(&calls) > 0; /* valgrind puts its own malloc in the place of ours */
}

void stress_heap_fail(long n, int lasts)
{
    atomic_store(&failure_lasts, lasts);
    atomic_store(&until_failure, n);
}

int stress_heap_stop_failing(void)
{
    const int happened = atomic_exchange(&until_failure, NEVER) < 0;
    atomic_store(&failure_lasts, 0);
    return happened;
}

#else

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAVE_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAVE_SANITIZER 1
#endif
#endif

#ifdef HAVE_SANITIZER
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

const char *stress_heap_source(void)
{
#ifdef HAVE_SANITIZER
    return "sanitizer";
#else
    return "mallinfo2";
#endif
}

size_t stress_heap_bytes(void)
{
#ifdef HAVE_SANITIZER
    return __sanitizer_get_current_allocated_bytes();
#elif defined(__GLIBC__)
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
#else
    return 0;
#endif
}

size_t stress_heap_blocks(void)
{
    return 0;
}

int stress_heap_can_fail(void)
{
    return 0;
}

void stress_heap_fail(long n, int lasts)
{
    (void)n;
    (void)lasts;
}

int stress_heap_stop_failing(void)
{
    return 0;
}

#endif
