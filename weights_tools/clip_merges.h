/* The file data/clip_merges.txt.gz, which is part of the program. */
#ifndef FC_CLIP_MERGES_FILE_H
#define FC_CLIP_MERGES_FILE_H

#include <stddef.h>

/* The file's content, and its length in *bytes. */
const unsigned char *fc_clip_merges_gzip(size_t *bytes);

#endif
