/* The pictures of a run, good and bad, in files and in memory, and what each gives. */
#ifndef STRESS_PICTURES_H
#define STRESS_PICTURES_H

#include "flatclip.h"

enum { STRESS_MAX_PICTURES = 4096 };

typedef struct {
    size_t count;
    char **paths;              /* sorted, so that a seed picks the same ones everywhere */
    flatclip_bytes *bytes;     /* their content */
    flatclip_status *statuses; /* what the first encode said of each */
    float *rows;               /* [count, D]: its embeddings; later ones must be the same bits */
    int dim;                   /* D */
} stress_pictures;

/* Whether a folder of the tests' pictures is below the working directory. */
int stress_pictures_are_here(void);

/* Finds files below paths (folders are searched; without paths, tests/data) and reads them.
 * Returns 0 with a message on standard error if a path or the memory is missing. */
int stress_pictures_open(stress_pictures *pictures, char **paths, int path_count);

/* Encodes each once, alone, and keeps what came. Returns 0 with a message if it cannot. */
int stress_pictures_learn(stress_pictures *pictures, flatclip_session *session, int dim);

/* Whether a later result of picture i is the same as the first one, bit for bit. */
int stress_pictures_agree(const stress_pictures *pictures, size_t i, flatclip_status status,
                          const float *row);

void stress_pictures_close(stress_pictures *pictures);

#endif
