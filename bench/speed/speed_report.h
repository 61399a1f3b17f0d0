/* Results as a readable table, as one JSON object, and as CSV: columns are named once. */
#ifndef SPEED_REPORT_H
#define SPEED_REPORT_H

#include "bench/speed/speed_options.h"

/* One column of a row: a number with some digits, or text. NAN is "unknown": a dash, null, or
 * nothing. Details are left out of the table, where a heading says them or they would only be in
 * the way. */
typedef struct {
    const char *name; /* "median_ms" */
    const char *text; /* NULL: the number */
    double number;
    int digits;
    int is_detail;
} speed_cell;

typedef struct {
    int json, rows;
    FILE *csv;
} speed_report;

/* Opens the CSV file, if one is asked for, and begins the object. Returns 0 with a message if the
 * file cannot be written. */
int speed_report_begin(speed_report *report, const speed_options *options);

/* A line for readers of the table. */
void speed_report_note(const speed_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What is not measured, and why: on standard error, whatever the form of results. */
void speed_report_lack(const char *what, const char *why);

/* One row. The first decides on the columns. */
void speed_report_row(speed_report *report, const speed_cell *cells, int count);

/* Ends the object; returns 0 with a message if the CSV file is not complete. */
int speed_report_end(speed_report *report);

#endif
