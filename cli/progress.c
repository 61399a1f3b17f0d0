/* Drawing the bar; see progress.h. */
#define _DEFAULT_SOURCE /* struct winsize */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 256, BAR_MAX = 40, DEFAULT_COLUMNS = 80 };

double fc_progress_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void fc_progress_start(fc_progress *progress, size_t total, int quiet)
{
    memset(progress, 0, sizeof *progress);
    progress->visible = !quiet && isatty(STDERR_FILENO);
    progress->total = total;
    progress->started = fc_progress_clock();
}

void fc_progress_start_bytes(fc_progress *progress, size_t first, size_t total, int quiet)
{
    fc_progress_start(progress, total, quiet);
    progress->bytes = 1;
    progress->first = first;
}

static void format_duration(char *text, size_t bytes, double seconds)
{
    const unsigned long whole = seconds < 1e8 ? (unsigned long)(seconds + 0.5) : 100000000ul;

    if (whole < 60)
        snprintf(text, bytes, "%lu s", whole);
    else if (whole < 3600)
        snprintf(text, bytes, "%lu min %02lu s", whole / 60, whole % 60);
    else
        snprintf(text, bytes, "%lu h %02lu min", whole / 3600, whole / 60 % 60);
}

/* facts with a bar before them that shows part (0 to 1), if columns have room for one. */
static void format_line(char *text, size_t bytes, int columns, double part, const char *facts)
{
    char bar[BAR_MAX + 1];
    int width = columns - 1 - (int)strlen(facts) - 4; /* "[", "]", two spaces */

    width = width > BAR_MAX ? BAR_MAX : width;
    if (width < 5) {
        snprintf(text, bytes, "%.*s", columns > 1 ? columns - 1 : 0, facts);
        return;
    }
    memset(bar, '-', (size_t)width);
    memset(bar, '#', (size_t)((double)width * part));
    bar[width] = '\0';
    snprintf(text, bytes, "[%s]  %s", bar, facts);
}

void fc_progress_format(char *text, size_t bytes, int columns, size_t done, size_t total,
                        double seconds)
{
    char facts[128], left[40] = "";

    if (done > 0 && seconds > 0) {
        const double rate = (double)done / seconds;
        format_duration(left, sizeof left, (double)(total - done) / rate);
        snprintf(facts, sizeof facts, "%zu/%zu  %.1f images/s  %s left", done, total, rate, left);
    } else {
        snprintf(facts, sizeof facts, "%zu/%zu", done, total);
    }
    format_line(text, bytes, columns, total ? (double)done / (double)total : 0, facts);
}

void fc_progress_format_bytes(char *text, size_t bytes, int columns, size_t first, size_t done,
                              size_t total, double seconds)
{
    const double mega = 1e-6, part = total ? (double)done / (double)total : 0;
    const double rate = done > first && seconds > 0 ? (double)(done - first) / seconds : 0;
    char facts[128], left[40] = "";
    int used = 0;

    if (total)
        used = snprintf(facts, sizeof facts, "%.0f %%  %.1f/%.1f MB", 100 * part,
                        mega * (double)done, mega * (double)total);
    else
        used = snprintf(facts, sizeof facts, "%.1f MB", mega * (double)done);
    if (rate > 0)
        used += snprintf(facts + used, sizeof facts - (size_t)used, "  %.1f MB/s", mega * rate);
    if (rate > 0 && total >= done) {
        format_duration(left, sizeof left, (double)(total - done) / rate);
        snprintf(facts + used, sizeof facts - (size_t)used, "  %s left", left);
    }
    format_line(text, bytes, columns, part < 1 ? part : 1, facts);
}

void fc_progress_update(fc_progress *progress, size_t done)
{
    char line[LINE_BYTES];
    struct winsize window;

    if (!progress->visible)
        return;
    const double now = fc_progress_clock();
    if (progress->drawn && now - progress->updated < 0.1)
        return;
    const int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0
                            ? window.ws_col : DEFAULT_COLUMNS;
    if (progress->bytes)
        fc_progress_format_bytes(line, sizeof line, columns, progress->first, done,
                                 progress->total, now - progress->started);
    else
        fc_progress_format(line, sizeof line, columns, done, progress->total,
                           now - progress->started);
    fprintf(stderr, "\r\033[K%s", line);
    progress->drawn = 1;
    progress->updated = now;
}

void fc_progress_clear(fc_progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = 0;
    progress->updated = 0;
}
