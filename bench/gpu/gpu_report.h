/* What a part of the check finds, as lines of a table and as JSON, both written as they come. */
#ifndef GPU_REPORT_H
#define GPU_REPORT_H

#include <stdio.h>

typedef enum {
    GPU_PASS,
    GPU_FAIL,
    GPU_SKIPPED,
    GPU_MEASURED    /* a number that is neither right nor wrong */
} gpu_verdict;

typedef struct {
    const char *part;
    FILE *json;     /* one object a line, or NULL */
    int failed;     /* how many findings were GPU_FAIL */
} gpu_report;

/* One finding: what was looked at, a number with its unit, and words (or NULL) about it. */
void gpu_found(gpu_report *report, gpu_verdict verdict, const char *what, double value,
               const char *unit, const char *words);

/* The same without a number; what is wrong, missing or was read, in words. */
void gpu_said(gpu_report *report, gpu_verdict verdict, const char *what, const char *words);

#endif
