/* How the stress program says what it found. */
#define _GNU_SOURCE
#include "bench/stress/stress_report.h"

#include "bench/measure.h"
#include "bench/stress/stress_heap.h"

static void print_slope(FILE *to, const stress_slope *slope)
{
    if (slope->known)
        fprintf(to, "trend %+.1f B an iteration, 99.9 %% interval %+.1f to %+.1f",
                slope->slope, slope->low, slope->high);
    else
        fprintf(to, "no trend known: fewer than %d iterations after the warm-up",
                STRESS_TREND_LEAST);
}

void stress_print_verdict(FILE *to, const stress_options *options, const stress_result *r)
{
    if (!r->passed) {
        fprintf(to, "FAIL: iteration %ld: %s (seed %ld)\n", r->failed_at, r->reason, options->seed);
        return;
    }
    fprintf(to, "PASS: %ld iterations (%ld to warm up), %zu images (%zu refused), %zu sessions and "
            "%zu models opened, %.1f s: growth 0 bytes: engine %zu B, heap %zu B in %zu blocks, "
            "%zu descriptors, %zu threads; resident %.1f MiB, peak %.1f (",
            r->iterations, r->warm_up, r->images, r->refused, r->sessions, r->models, r->seconds,
            r->last.engine, r->last.heap, r->last.blocks, r->last.descriptors, r->last.threads,
            mebibytes(r->last.resident), mebibytes(r->last.peak));
    print_slope(to, &r->slope);
    fputs(")\n", to);
}

static void print_text(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text; text++)
        if ((unsigned char)*text < 32 || (unsigned char)*text > 126)
            fprintf(to, "\\u%04x", (unsigned char)*text);
        else if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else
            putc(*text, to);
    putc('"', to);
}

static void print_reading(FILE *to, const char *name, const stress_reading *r)
{
    fprintf(to, ", \"%s\": {\"engine\": %zu, \"device\": %zu, \"device_used\": %zu, "
            "\"heap\": %zu, \"blocks\": %zu, \"descriptors\": %zu, \"threads\": %zu, "
            "\"resident\": %zu, \"peak\": %zu}",
            name, r->engine, r->device, r->device_used, r->heap, r->blocks, r->descriptors,
            r->threads, r->resident, r->peak);
}

void stress_print_json(FILE *to, const stress_options *o, const char *backend,
                       const stress_result *r, int faults)
{
    const int passed = (r->passed || !o->loop) && faults != 0;
    fprintf(to, "{\"verdict\": \"%s\", \"backend\": \"%s\", \"seed\": %ld, \"sessions\": %ld, "
            "\"threads\": %ld, \"batch\": %ld, \"heap_source\": \"%s\", \"faults\": %s",
            passed ? "PASS" : "FAIL", backend, o->seed, o->sessions, o->threads, o->batch,
            stress_heap_source(), faults < 0 ? "null" : faults ? "true" : "false");
    if (o->loop) {
        fprintf(to, ", \"iterations\": %ld, \"warm_up\": %ld, \"seconds\": %.3f, \"images\": %zu, "
                "\"refused\": %zu, \"failed_at\": %ld, \"reason\": ",
                r->iterations, r->warm_up, r->seconds, r->images, r->refused, r->failed_at);
        print_text(to, r->reason);
        print_reading(to, "limit", &r->limit);
        print_reading(to, "last", &r->last);
        if (r->slope.known)
            fprintf(to, ", \"resident_slope\": {\"bytes\": %.3f, \"low\": %.3f, \"high\": %.3f}",
                    r->slope.slope, r->slope.low, r->slope.high);
    }
    fputs("}\n", to);
}
