/* Prints rows as they come. */
#define _GNU_SOURCE
#include "bench/speed/speed_report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "bench/measure.h"

enum { NUMBER_WIDTH = 6, TEXT_WIDTH = 16 };

int speed_report_begin(speed_report *report, const speed_options *options)
{
    *report = (speed_report){ .json = options->json };
    if (options->csv && !(report->csv = fopen(options->csv, "w"))) {
        perror(options->csv);
        return 0;
    }
    if (report->json)
        printf("{\"program\": \"flatclip-bench\", \"version\": %d, \"mode\": \"%s\", "
               "\"results\": [",
               flatclip_version(), speed_mode_name(options->mode));
    return 1;
}

void speed_report_note(const speed_report *report, const char *format, ...)
{
    va_list arguments;
    if (report->json)
        return;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

void speed_report_lack(const char *what, const char *why)
{
    fflush(stdout); /* behind the rows so far */
    fprintf(stderr, "flatclip-bench: %s: not measured: %s\n", what, why);
}

/* Text between quotes, or a number, or what stands for an unknown one. */
static void print_cell(FILE *to, const speed_cell *cell, const char *unknown)
{
    if (!cell->text && isnan(cell->number))
        fputs(unknown, to);
    else if (!cell->text)
        fprintf(to, "%.*f", cell->digits, cell->number);
    else
        print_quoted(to, cell->text);
}

static void print_json(const speed_report *report, const speed_cell *cells, int count)
{
    fputs(report->rows ? ", {" : "{", stdout);
    for (int i = 0; i < count; i++) {
        printf("%s\"%s\": ", i ? ", " : "", cells[i].name);
        print_cell(stdout, &cells[i], "null");
    }
    fputs("}", stdout);
}

static void print_csv(const speed_report *report, const speed_cell *cells, int count)
{
    for (int i = 0; report->rows == 0 && i < count; i++)
        fprintf(report->csv, "%s%s", cells[i].name, i + 1 < count ? "," : "\n");
    for (int i = 0; i < count; i++) {
        print_cell(report->csv, &cells[i], "");
        fputc(i + 1 < count ? ',' : '\n', report->csv);
    }
}

/* Characters of a column: a name as it is or longer text, and two between columns. */
static int column_width(const speed_cell *cell)
{
    const int name = (int)strlen(cell->name), text = cell->text ? TEXT_WIDTH : NUMBER_WIDTH;
    return 2 + (name > text ? name : text);
}

/* "median_ms" as "median ms", at the right. */
static void print_name(const speed_cell *cell)
{
    printf("%*s", column_width(cell) - (int)strlen(cell->name), "");
    for (const char *c = cell->name; *c; c++)
        putchar(*c == '_' ? ' ' : *c);
}

static void print_line(const speed_report *report, const speed_cell *cells, int count)
{
    for (int i = 0; report->rows == 0 && i < count; i++)
        if (!cells[i].is_detail)
            print_name(&cells[i]);
    if (report->rows == 0)
        putchar('\n');
    for (int i = 0; i < count; i++) {
        if (cells[i].is_detail)
            continue;
        const int width = column_width(&cells[i]);
        if (cells[i].text)
            printf("  %*s", width - 2, cells[i].text);
        else if (isnan(cells[i].number))
            printf("%*s", width, "-");
        else
            printf("%*.*f", width, cells[i].digits, cells[i].number);
    }
    putchar('\n');
}

void speed_report_row(speed_report *report, const speed_cell *cells, int count)
{
    if (report->json)
        print_json(report, cells, count);
    else
        print_line(report, cells, count);
    if (report->csv)
        print_csv(report, cells, count);
    report->rows++;
    fflush(stdout);
}

int speed_report_end(speed_report *report)
{
    if (report->json)
        puts("]}");
    if (report->csv && (ferror(report->csv) | fclose(report->csv))) {
        fputs("flatclip-bench: the CSV file is not complete\n", stderr);
        return 0;
    }
    return 1;
}
