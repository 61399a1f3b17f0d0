/* Sums up a memory map: regions whose names differ only in a number, such as the same tensor of
 * every layer, count as one. */
#ifndef FC_REGION_GROUPS_H
#define FC_REGION_GROUPS_H

#include "flatclip.h"

typedef struct {
    flatclip_region_kind kind;
    char name[96];  /* numbers between dots or spaces replaced by '*' */
    size_t count;   /* regions */
    uint64_t bytes; /* of all of them */
} fc_region_group;

typedef struct {
    fc_region_group *groups; /* [count], in order of appearance until sorted */
    size_t count, capacity;
    int out_of_memory;       /* nonzero: the sums are not complete */
} fc_region_groups;          /* all zeros is none */

/* Adds a region; a flatclip_region_fn whose user is a fc_region_groups. */
void fc_region_groups_add(void *user, const flatclip_region *region);

/* The largest first. */
void fc_region_groups_sort(fc_region_groups *groups);

void fc_region_groups_free(fc_region_groups *groups);

const char *fc_region_kind_word(flatclip_region_kind kind); /* "weights" */

#endif
