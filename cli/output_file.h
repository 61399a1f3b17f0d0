/* A file that appears under its name only when it is complete.
 *
 * It is written beside its place as .NAME.PID.tmp and renamed at the end. Ending the program with
 * Ctrl-C or a signal removes what is unfinished. */
#ifndef FC_OUTPUT_FILE_H
#define FC_OUTPUT_FILE_H

#include <stdio.h>

#include "flatclip.h"

enum { FC_OUTPUT_FILES = 4 }; /* how many may be unfinished at one time */

typedef struct {
    FILE *stream;   /* to write to */
    char *path;     /* where it will be */
    char *temporary;
    int slot;       /* in the table that the signal handler reads, or -1 */
} fc_output_file;   /* all zeros is none */

/* Creates the temporary file, after a look at what path is now: only a plain file is replaced. On
 * failure *file is none. Errors: IO (says what to do), MEMORY. */
flatclip_status fc_output_file_open(fc_output_file *file, const char *path, flatclip_error *err);

/* Reserves room for bytes in all, so that a full disk is found now and not after hours; where the
 * file system cannot reserve, does nothing. Errors: IO. */
flatclip_status fc_output_file_reserve(fc_output_file *file, uint64_t bytes, flatclip_error *err);

/* Whether all writes so far went well. Called right after a write, it knows why not. Errors: IO. */
flatclip_status fc_output_file_check(const fc_output_file *file, flatclip_error *err);

/* Ends writing: puts header (bytes of it; NULL for none) over the beginning of the file, brings
 * everything to the disk, gives reserved room back. The file is still temporary. Errors: IO. */
flatclip_status fc_output_file_finish(fc_output_file *file, const void *header, size_t bytes,
                                      flatclip_error *err);

/* Gives a finished file its name, replacing what was there, and makes *file none. Errors: IO. */
flatclip_status fc_output_file_publish(fc_output_file *file, flatclip_error *err);

/* Removes what is unfinished and makes *file none; none is allowed. */
void fc_output_file_discard(fc_output_file *file);

/* Lets SIGINT, SIGTERM and SIGHUP remove unfinished files and end the program with 128 + signal
 * (those that are ignored stay so), and turns a closed pipe and a file size limit into write
 * errors. Called once, at the start of the program. */
void fc_output_file_catch_signals(void);

/* Holds those signals back while several files are published together, and lets them in again. */
void fc_output_file_hold_signals(void);
void fc_output_file_let_signals(void);

#endif
