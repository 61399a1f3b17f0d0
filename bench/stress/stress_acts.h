/* What a worker can do in one iteration. */
#ifndef STRESS_ACTS_H
#define STRESS_ACTS_H

#include "bench/stress/stress_worker.h"

/* Does one thing, chosen by worker->random, or everything if the team is on tour. What goes wrong
 * is in worker->failure afterwards. */
void stress_act(stress_worker *worker);

/* Opens the worker's session. Returns 0 with worker->failure. */
int stress_open_session(stress_worker *worker);

#endif
