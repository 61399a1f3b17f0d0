/* Pictures made for a run, where there are none: good and bad, so that nothing is left out. */
#ifndef STRESS_MADE_H
#define STRESS_MADE_H

#include <limits.h>

typedef struct {
    char folder[PATH_MAX / 2]; /* "" if there is none */
} stress_made;

/* Writes JPEG and PNG files of several sizes, and broken ones, to a new folder below $TMPDIR.
 * Returns 0 with a message on standard error if it cannot; close it all the same. */
int stress_made_open(stress_made *made);

/* Removes the folder. */
void stress_made_close(stress_made *made);

#endif
