/* The planted leak, and nothing at all in the normal program. */
#define _GNU_SOURCE
#include "bench/stress/stress_leak.h"

#include "bench/stress/stress_cuda.h"

#ifdef FLATCLIP_PLANTED_LEAK

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *volatile leaked; /* volatile: or a compiler may leave the allocation out */

static void *wait_forever(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

/* Not through mmap, which the heap counter sees: like a driver's memory. */
static void touch_page(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *fresh = (char *)syscall(SYS_mmap, NULL, page, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (fresh != MAP_FAILED)
        fresh[0] = 1;
}

void stress_leak(long iteration)
{
    const char *what = getenv("FLATCLIP_LEAK"), *from = getenv("FLATCLIP_LEAK_FROM");
    pthread_t thread;
    if (!what || iteration < (from ? strtol(from, NULL, 10) : 1))
        return;
    if (strcmp(what, "heap") == 0)
        leaked = malloc(64);
    else if (strcmp(what, "resident") == 0)
        touch_page();
    else if (strcmp(what, "device") == 0)
        stress_cuda_leak(256);
    else if (strcmp(what, "descriptor") == 0)
        leaked = open("/dev/null", O_RDONLY) < 0 ? NULL : leaked;
    else if (strcmp(what, "thread") == 0)
        leaked = pthread_create(&thread, NULL, wait_forever, NULL) ? NULL : leaked;
}

#else

void stress_leak(long iteration)
{
    (void)iteration;
}

#endif
