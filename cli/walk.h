/* From the paths that a user gives to the sorted list of inputs.
 *
 * A file is an input, whatever its name. A folder is searched, and what it holds is sorted by the
 * bytes of the whole path. In a folder, a file is an input if its name ends like a picture's (in
 * any case) or its content is JPEG or PNG; hidden names and everything else are skipped and
 * counted. Links to files are followed. So are links to folders, but no folder is searched twice
 * for one PATH, its real name goes before its links, and a link that leads upwards is skipped, so
 * that loops end. */
#ifndef FC_WALK_H
#define FC_WALK_H

#include "cli/path_list.h"

typedef struct {
    size_t hidden; /* names that begin with a dot, folders included (not what is in them) */
    size_t other;  /* files that are no pictures, sockets and the like, broken links, loops */
} fc_walk_skipped;

/* Appends the inputs below path to list and adds to *skipped. What does not exist or cannot be read
 * is appended as it is, a folder included: reading it later fails and says why, in its place in the
 * order. Errors: MEMORY. */
flatclip_status fc_walk(const char *path, fc_path_list *list, fc_walk_skipped *skipped,
                        flatclip_error *err);

/* Whether name ends like a picture's: .jpg, .PNG, .webp, ... */
int fc_walk_is_picture_name(const char *name);

#endif
