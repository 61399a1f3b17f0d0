/* The forward pass, stage by stage.
 *
 * A session's backend is reached through a table of operations (engine/backend.h). For a profile
 * that table is replaced by one whose entries take the time around the real ones; the engine does
 * not know. Times of operations, and the rest between them, sum to the whole. On a GPU the times
 * are the device's own, of launches one by one, without the graph that encoding uses and without
 * the pixels' way there: the whole is a little more, or less, than an encode call. Behind it stand
 * there cuDNN's times for the stages that it has. */
#ifndef SPEED_PROFILE_H
#define SPEED_PROFILE_H

#include "bench/speed/speed_encode.h"

/* Times run->session on batch ready pixels; a row a stage, and one for the whole. Errors: those of
 * the encode call, MEMORY. */
flatclip_status speed_profile(speed_run *run, flatclip_error *err);

#endif
