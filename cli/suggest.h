/* "Did you mean": the nearest of a list of words by edit distance. */
#ifndef FC_SUGGEST_H
#define FC_SUGGEST_H

#include <stddef.h>

#define FC_SUGGEST_MAX 40 /* longer words are never near anything */

/* Insertions, deletions, substitutions and swaps of neighbours that turn a into b; both at most
 * FC_SUGGEST_MAX bytes, else the result is FC_SUGGEST_MAX + 1. */
size_t fc_edit_distance(const char *a, const char *b);

/* Remembers the best candidate so far. Start from { word, NULL, 0 }. */
typedef struct {
    const char *word;
    const char *best; /* NULL while nothing is near enough to be a slip of the finger */
    size_t distance;
} fc_suggestion;

/* Offers a candidate: taken if it is near, or if word is the beginning of it, and nearer than the
 * best so far. */
void fc_suggest(fc_suggestion *suggestion, const char *candidate);

#endif
