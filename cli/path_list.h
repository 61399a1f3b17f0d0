/* A growing list of paths. Text lies in blocks that never move, so entries are plain pointers. */
#ifndef FC_PATH_LIST_H
#define FC_PATH_LIST_H

#include <stddef.h>

#include "flatclip.h"

typedef struct fc_path_block fc_path_block;

typedef struct {
    const char **paths;    /* [count], each NUL-terminated */
    size_t count, capacity;
    fc_path_block *blocks; /* the text, newest first */
} fc_path_list;            /* all zeros is an empty list */

/* Appends a copy of the two parts joined; with a '/' between them if folder is not empty and does
 * not end in one. Errors: MEMORY. */
flatclip_status fc_path_list_join(fc_path_list *list, const char *folder, const char *name,
                                  flatclip_error *err);

/* Appends path itself, which must live as long as the list. Errors: MEMORY. */
flatclip_status fc_path_list_borrow(fc_path_list *list, const char *path, flatclip_error *err);

/* Sorts entries first..count bytewise. */
void fc_path_list_sort(fc_path_list *list, size_t first);

void fc_path_list_free(fc_path_list *list); /* leaves an empty list */

/* Reads the names in file (a path, or "-" for standard input) and appends them. Names end with NUL
 * if there is any NUL byte or only_nul is nonzero; else with a newline, before which a carriage
 * return is dropped. Empty names are skipped. Errors: IO, MEMORY. */
flatclip_status fc_path_list_read(fc_path_list *list, const char *file, int only_nul,
                                  flatclip_error *err);

#endif
