/* The forward pass, stage by stage.
 *
 * A session's backend is reached through a table of operations (engine/backend.h). For a profile
 * that table is replaced by one whose entries take the time around the real ones; the engine does
 * not know. The CPU's operations are done when they return, so their times, and the rest, sum to
 * the whole. On a device that only queues them this says nothing: CPU only. */
#ifndef SPEED_PROFILE_H
#define SPEED_PROFILE_H

#include "bench/speed/speed_encode.h"

/* Times run->session on batch ready pixels; a row a stage, and one for the whole. Errors: those of
 * the encode call, MEMORY, UNAVAILABLE (not the CPU). */
flatclip_status speed_profile(speed_run *run, flatclip_error *err);

#endif
