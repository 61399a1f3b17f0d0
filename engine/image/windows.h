/* Which source pixels make one output pixel along one axis, and with what weights.
 *
 * An axis of the output is `count` windows: output i is the weighted sum of `length[i]` source
 * pixels from `begin[i]` on. Everything that distinguishes pictures ends here: shrinking, growing,
 * cropping, nearest neighbour and mirroring are only other windows. */
#ifndef FC_WINDOWS_H
#define FC_WINDOWS_H

#include <stdint.h>

#define FC_WEIGHT_BITS 22 /* fractional bits of a weight, Pillow's choice for 8-bit pixels */
#define FC_WEIGHT_GROUP 8 /* windows are padded with zero weights to a multiple of this */

typedef struct {
    int count;       /* outputs */
    int room;        /* weights from one window to the next, a multiple of FC_WEIGHT_GROUP */
    int32_t *begin;  /* [count] first source pixel */
    int32_t *length; /* [count] */
    int32_t *weight; /* [count, room] */
} fc_windows;

/* One axis of a picture: `in` source pixels become `out`, of which the windows' count from `first`
 * on are kept. */
typedef struct {
    int32_t in;
    int64_t out, first;
} fc_axis;

/* Weights a window needs at most when an axis shrinks by scale (in / out), padding included. */
int fc_window_room(double scale);

/* Fill begin, length, weight and room for windows->count outputs; weight must hold count *
 * fc_window_room(in / out). filter [fc_window_room(in / out)] is working memory.
 * Bicubic is Pillow's: a = -0.5, widened when shrinking. Nearest is its NEAREST. Neither fails. */
void fc_windows_bicubic(fc_windows *windows, const fc_axis *axis, double *filter);
void fc_windows_nearest(fc_windows *windows, const fc_axis *axis);

/* Mirror the source axis, `in` pixels long: the output shows it from the other end. */
void fc_windows_mirror(fc_windows *windows, int32_t in);

/* Reverses the order of the outputs, so that begin ascends again after mirroring. */
void fc_windows_reverse(fc_windows *windows);

/* The most windows that share a source pixel. begin must ascend. */
int fc_windows_overlap(const fc_windows *windows);

#endif
