/* The encode pipeline: inputs -> pixels -> image tower -> results, batch by batch. */
#ifndef FC_ENCODE_H
#define FC_ENCODE_H

#include "engine/session.h"

/* Where results go: to arrays, or to a callback, in input order. */
typedef struct {
    float *embeddings;              /* [count, D], or NULL with a callback */
    flatclip_error *items;          /* [count], or NULL */
    flatclip_result_fn *on_result;  /* or NULL */
    void *user;

    size_t failed, first_failed;    /* how many inputs failed, and the first of them */
    flatclip_error first_error;
    int is_stopped;                 /* the callback asked to */
} fc_results;

/* Encodes all inputs; allocates nothing. Items fail alone: see flatclip.h for the status.
 * Errors: ITEMS, STOPPED, DEVICE, or without items the first item's own. */
flatclip_status fc_encode(flatclip_session *session, const fc_inputs *inputs, fc_results *results,
                          flatclip_error *err);

#endif
