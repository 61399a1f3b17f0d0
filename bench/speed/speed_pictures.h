/* Pictures to pixels on one thread: resizing alone, and the whole way from the bytes of a file. */
#ifndef SPEED_PICTURES_H
#define SPEED_PICTURES_H

#include "bench/speed/speed_report.h"

/* Times what the options name, a row each; a picture that fails is named on standard error.
 * Returns how many failed. Errors of the whole: ARGUMENT, UNAVAILABLE, MEMORY, with -1. */
int speed_pictures(const speed_options *options, speed_report *report, flatclip_error *err);

#endif
