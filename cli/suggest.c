/* Edit distance by dynamic programming, three rows at a time. */
#include "cli/suggest.h"

#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t fc_edit_distance(const char *a, const char *b)
{
    const size_t a_len = strlen(a), b_len = strlen(b);
    size_t rows[3][FC_SUGGEST_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];

    if (a_len > FC_SUGGEST_MAX || b_len > FC_SUGGEST_MAX)
        return FC_SUGGEST_MAX + 1;
    for (size_t j = 0; j <= b_len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            now[j] = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least(now[j], least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
        size_t *const spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b_len];
}

void fc_suggest(fc_suggestion *suggestion, const char *candidate)
{
    const size_t len = strlen(suggestion->word);
    size_t distance = fc_edit_distance(suggestion->word, candidate);

    /* One slip in short words, two or three in long ones; very short ones are all alike. */
    if (len < 4 || distance > 1 + len / 6) {
        if (len < 2 || strncmp(suggestion->word, candidate, len) != 0)
            return;
        distance = FC_SUGGEST_MAX; /* an abbreviation is a worse guess than any typing error */
    }
    if (!suggestion->best || distance < suggestion->distance) {
        suggestion->best = candidate;
        suggestion->distance = distance;
    }
}
