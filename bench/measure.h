/* What the measuring programs read of their own process: heap in use, resident memory, open
 * descriptors, threads, time. Nothing here allocates while it measures. */
#ifndef FC_MEASURE_H
#define FC_MEASURE_H

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "flatclip.h"

typedef struct {
    size_t engine;   /* bytes that the session says it holds, its model included */
    size_t heap;     /* bytes in use on the C library's heap, all arenas */
    size_t resident; /* bytes of the process in memory */
    int descriptors;
    int threads;
} measurement;

/* Starts the program again with glibc's per-thread cache off: blocks in that cache count as used,
 * and a heap that only fills its caches would look like one that grows. Returns if that is done, or
 * cannot be. */
static inline void measure_exactly(char **argv)
{
    if (getenv("GLIBC_TUNABLES"))
        return;
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    execv("/proc/self/exe", argv);
}

/* Reads a small file of /proc without stdio; returns the bytes read, NUL-terminated. */
static inline size_t read_proc(const char *path, char *text, size_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : read(fd, text, bytes - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

static inline size_t resident_bytes(void)
{
    char text[256];
    read_proc("/proc/self/statm", text, sizeof text);
    const char *second = strchr(text, ' ');
    return second ? strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static inline int thread_count(void)
{
    char text[4096];
    read_proc("/proc/self/status", text, sizeof text);
    const char *line = strstr(text, "\nThreads:");
    return line ? atoi(line + 9) : 0;
}

/* Asks for every number, because opening a folder would take a descriptor and memory of its own. */
static inline int descriptor_count(void)
{
    const long limit = sysconf(_SC_OPEN_MAX);
    int count = 0;
    for (int fd = 0; fd < (limit > 0 && limit < 1024 ? limit : 1024); fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

static inline measurement measure(const flatclip_session *session)
{
    flatclip_memory memory = FLATCLIP_MEMORY_INIT;
    flatclip_session_memory(session, &memory);
    measurement m = { .engine = memory.total,
                      .resident = resident_bytes(),
                      .descriptors = descriptor_count(),
                      .threads = thread_count() };
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 heap = mallinfo2();
    m.heap = heap.uordblks + heap.hblkhd;
#endif
    return m;
}

/* Seconds on a clock that only goes forward. */
static inline double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline double mebibytes(size_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* xorshift64*: never 0 as long as *state is not. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 2685821657736338717u) >> 32;
}

/* Bytes of noise, always the same, the caller's to free; NULL without memory. */
static inline uint8_t *new_noise(size_t bytes)
{
    uint8_t *noise = malloc(bytes);
    uint64_t random = 1;
    for (size_t i = 0; noise && i < bytes; i++)
        noise[i] = (uint8_t)random_next(&random);
    return noise;
}

/* Text as a JSON string. */
static inline void print_quoted(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < 32)
            fprintf(to, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, to);
    fputc('"', to);
}

static inline int order_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts numbers, the smallest first, and returns their median; count is at least 1. */
static inline double sort_for_median(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, order_numbers);
    return (numbers[(count - 1) / 2] + numbers[count / 2]) / 2;
}

static inline int asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return 1;
    return 0;
}

/* Reads a device's name: auto, cpu or cuda. Returns 0 for another. */
static inline int read_device(const char *name, flatclip_device *device)
{
    static const char *const names[] = { "auto", "cpu", "cuda" };
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *device = (flatclip_device)i;
            return 1;
        }
    return 0;
}

/* Reads a whole number in [low, high]. Returns 0 if text is not one. */
static inline int read_number(const char *text, long low, long high, long *number)
{
    char *end;
    *number = strtol(text, &end, 10);
    return *text && !*end && *number >= low && *number <= high;
}

#endif
