/* The hash table behind folder_set.h: linear probing, at most half full. */
#include "cli/folder_set.h"

#include <stdint.h>
#include <stdlib.h>

/* The slot of id, or the free one where it belongs. */
static fc_folder_id *find_slot(const fc_folder_set *set, fc_folder_id id)
{
    /* Knuth's multiplicative hash: inodes come in runs. */
    const uint64_t hash = ((uint64_t)id.inode + ((uint64_t)id.device << 40)) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(hash >> 32) & (set->capacity - 1);

    while (set->slots[i].inode != 0 &&
           (set->slots[i].inode != id.inode || set->slots[i].device != id.device))
        i = (i + 1) & (set->capacity - 1);
    return &set->slots[i];
}

static int grow(fc_folder_set *set)
{
    fc_folder_set larger = { NULL, set->count, set->capacity ? set->capacity * 2 : 64 };

    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return -1;
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slots[i].inode != 0)
            *find_slot(&larger, set->slots[i]) = set->slots[i];
    }
    free(set->slots);
    *set = larger;
    return 0;
}

int fc_folder_set_add(fc_folder_set *set, fc_folder_id id)
{
    if (set->count * 2 >= set->capacity && grow(set) != 0)
        return -1;
    fc_folder_id *slot = find_slot(set, id);
    if (slot->inode != 0)
        return 0;
    *slot = id;
    set->count++;
    return 1;
}

void fc_folder_set_free(fc_folder_set *set)
{
    free(set->slots);
    *set = (fc_folder_set){ NULL, 0, 0 };
}
