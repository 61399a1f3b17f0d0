#define _GNU_SOURCE
#include "bench/gpu/gpu_report.h"

#include "bench/measure.h"

static const char *const verdicts[] = { "PASS", "FAIL", "skipped", "" };

/* number is text that both the table and JSON can take, or NULL. */
static void put(gpu_report *report, gpu_verdict verdict, const char *what, const char *number,
                const char *unit, const char *words)
{
    report->failed += verdict == GPU_FAIL;
    printf("%-11s %-34s %12s %-9s %-8s%s\n", report->part, what, number ? number : "",
           number ? unit : "", verdicts[verdict], words ? words : "");
    fflush(stdout);
    if (!report->json)
        return;
    fprintf(report->json, "{\"part\": \"%s\", \"what\": ", report->part);
    print_quoted(report->json, what);
    if (number)
        fprintf(report->json, ", \"value\": %s, \"unit\": \"%s\"", number, unit);
    if (words) {
        fputs(", \"words\": ", report->json);
        print_quoted(report->json, words);
    }
    fprintf(report->json, ", \"verdict\": \"%s\"}\n",
            verdict == GPU_MEASURED ? "measured" : verdicts[verdict]);
    fflush(report->json);
}

void gpu_found(gpu_report *report, gpu_verdict verdict, const char *what, double value,
               const char *unit, const char *words)
{
    char number[40];
    snprintf(number, sizeof number, value == (double)(long long)value ? "%.0f" : "%.5g", value);
    if (value != value) /* JSON has no NaN */
        snprintf(number, sizeof number, "null");
    put(report, verdict, what, number, unit, words);
}

void gpu_said(gpu_report *report, gpu_verdict verdict, const char *what, const char *words)
{
    put(report, verdict, what, NULL, NULL, words);
}
