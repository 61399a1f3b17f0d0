/* Reads /proc without stdio and without memory. */
#define _GNU_SOURCE
#include "bench/stress/stress_reading.h"

#include <sys/syscall.h>

#include "bench/measure.h"
#include "bench/stress/stress_cuda.h"
#include "bench/stress/stress_heap.h"

enum { SETTLE_TRIES = 1000 };

static size_t status_number(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line ? strtoul(line + strlen(name), NULL, 10) : 0;
}

/* Open descriptors, without the one that looks; readdir would take memory. */
static size_t count_descriptors(void)
{
    char entries[4096];
    size_t count = 0;
    const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long bytes; (bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
        for (long at = 0; at < bytes;) {
            unsigned short length; /* of an entry: after its two 64-bit numbers */
            memcpy(&length, entries + at + 16, sizeof length);
            count += entries[at + 19] != '.';
            at += length;
        }
    close(folder);
    return count ? count - 1 : 0;
}

static size_t count_threads(void)
{
    char status[4096];
    read_proc("/proc/self/status", status, sizeof status);
    return status_number(status, "\nThreads:");
}

void stress_read_process(stress_reading *reading)
{
    char status[4096];
    reading->device_used = stress_cuda_bytes();
    reading->heap = stress_heap_bytes();
    reading->blocks = stress_heap_blocks();
    reading->descriptors = count_descriptors();
    read_proc("/proc/self/status", status, sizeof status);
    reading->threads = status_number(status, "\nThreads:");
    reading->peak = status_number(status, "\nVmHWM:") << 10;
    reading->resident = resident_bytes();
}

static void wait_for_ending_threads(stress_reading *now, size_t limit)
{
    const struct timespec pause = { 0, 1000000 };
    for (int i = 0; i < SETTLE_TRIES && now->threads > limit; i++) {
        nanosleep(&pause, NULL);
        now->threads = count_threads();
    }
}

int stress_has_grown(stress_reading *now, const stress_reading *limit, stress_growth *growth)
{
    wait_for_ending_threads(now, limit->threads);
    const stress_growth checks[] = {
        { "engine bytes", limit->engine, now->engine },
        { "device bytes", limit->device, now->device },
        { "device memory in use", limit->device_used, now->device_used },
        { "heap bytes", limit->heap, now->heap },
        { "heap blocks", limit->blocks, now->blocks },
        { "open descriptors", limit->descriptors, now->descriptors },
        { "threads", limit->threads, now->threads },
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].now > checks[i].limit) {
            *growth = checks[i];
            return 1;
        }
    return 0;
}

static void raise_to(size_t *limit, size_t now)
{
    *limit = now > *limit ? now : *limit;
}

void stress_raise_limit(stress_reading *limit, const stress_reading *now)
{
    raise_to(&limit->engine, now->engine);
    raise_to(&limit->device, now->device);
    raise_to(&limit->device_used, now->device_used);
    raise_to(&limit->heap, now->heap);
    raise_to(&limit->blocks, now->blocks);
    raise_to(&limit->descriptors, now->descriptors);
    raise_to(&limit->threads, now->threads);
    raise_to(&limit->resident, now->resident);
    raise_to(&limit->peak, now->peak);
}
