/* How many CPUs this process may use: a container with two of sixty-four cores must not get
 * sixty-four threads. */
#define _GNU_SOURCE
#include "engine/base/cpu_count.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int affinity_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than cpu_set_t holds */
}

/* Reads up to two numbers from a file of the cgroup tree; returns how many it found. The first may
 * be the word "max". */
static int read_numbers(const char *folder, const char *name, long long *first, long long *second)
{
    char path[1200];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const int found = fscanf(file, "%lld %lld", first, second);
    fclose(file);
    return found;
}

/* CPUs by quota in one cgroup folder, of version 2 or 1; 0 for no quota. */
static int quota_count(const char *folder)
{
    long long quota = 0, period = 0, unused = 0;
    if (read_numbers(folder, "cpu.max", &quota, &period) != 2 &&
        (read_numbers(folder, "cpu.cfs_quota_us", &quota, &unused) != 1 ||
         read_numbers(folder, "cpu.cfs_period_us", &period, &unused) != 1))
        return 0;
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

/* The smallest quota of a cgroup and all above it, up to root, which path starts with. */
static int smallest_quota(char *path, size_t root_length)
{
    int smallest = 0;
    for (;;) {
        const int count = quota_count(path);
        if (count && (!smallest || count < smallest))
            smallest = count;
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < root_length)
            return smallest;
        *slash = '\0';
    }
}

static int cgroup_count(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return 0;
    int smallest = 0;
    char line[1024], path[1100];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        const char *root = *controllers == '\0' ? "/sys/fs/cgroup"
                           : strstr(controllers, "cpu") && !strstr(controllers, "cpuset")
                               ? "/sys/fs/cgroup/cpu"
                               : NULL;
        if (!root)
            continue;
        snprintf(path, sizeof path, "%s%s", root, group);
        const int count = smallest_quota(path, strlen(root));
        if (count && (!smallest || count < smallest))
            smallest = count;
    }
    fclose(file);
    return smallest;
}

int fc_cpu_count(void)
{
    const int affinity = affinity_count(), quota = cgroup_count();
    const int count = quota && quota < affinity ? quota : affinity;
    return count > 0 ? count : 1;
}
