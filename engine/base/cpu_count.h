/* How many CPUs this process may use. */
#ifndef FC_CPU_COUNT_H
#define FC_CPU_COUNT_H

/* The smaller of the affinity mask's size and the cgroup's CPU quota (rounded up), at least 1. */
int fc_cpu_count(void);

#endif
