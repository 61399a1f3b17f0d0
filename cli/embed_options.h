/* The command line of `flatclip embed`. */
#ifndef FC_EMBED_OPTIONS_H
#define FC_EMBED_OPTIONS_H

#include <stddef.h>

#include "flatclip.h"

typedef struct {
    const char *model;     /* of -m, or NULL */
    const char *output;    /* of -o, or NULL: standard output */
    const char *list;      /* of --from-file, or NULL */
    int list_only_nul;     /* nonzero: names in the list end with NUL even if there is only one */
    uint64_t shard, shards; /* 1 <= shard <= shards */
    int quiet;
    int help;              /* nonzero: show help; nothing else was read after it */
    flatclip_model_options engine;
    flatclip_session_options session;
    const char **paths;    /* [path_count], in order; free with fc_embed_options_free */
    size_t path_count;
} fc_embed_options;

/* Reads the command line. Errors: ARGUMENT, MEMORY. *options is to be freed in any case. */
flatclip_status fc_embed_options_read(fc_embed_options *options, int argc, char **argv,
                                      flatclip_error *err);

void fc_embed_options_free(fc_embed_options *options);

/* The inputs of a shard among count: *first and how many. Shards are stretches of the list, so that
 * their outputs one after the other are the output of the whole; each input is in exactly one. */
void fc_embed_shard(const fc_embed_options *options, size_t count, size_t *first, size_t *length);

#endif
