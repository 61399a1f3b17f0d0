/* A set of folders by identity, so that links cannot lead a search in circles. */
#ifndef FC_FOLDER_SET_H
#define FC_FOLDER_SET_H

#include <stddef.h>
#include <sys/types.h>

typedef struct {
    dev_t device;
    ino_t inode;
} fc_folder_id;

typedef struct {
    fc_folder_id *slots; /* [capacity], open addressing; inode 0 is a free slot */
    size_t count, capacity;
} fc_folder_set;         /* all zeros is an empty set */

/* Adds id. Returns 1 if it is new, 0 if the set had it, -1 without memory. */
int fc_folder_set_add(fc_folder_set *set, fc_folder_id id);

void fc_folder_set_free(fc_folder_set *set);

#endif
