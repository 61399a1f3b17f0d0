/* The verdict, for people and as JSON. */
#ifndef STRESS_REPORT_H
#define STRESS_REPORT_H

#include "bench/stress/stress_loop.h"

/* One line: PASS or FAIL, with the numbers. */
void stress_print_verdict(FILE *to, const stress_options *options, const stress_result *result);

/* One object with everything. faults: 1 good, 0 bad, -1 not tried. */
void stress_print_json(FILE *to, const stress_options *options, const char *backend,
                       const stress_result *result, int faults);

#endif
