/* What an open .safetensors file is inside; seen only by safetensors.c and safetensors_header.c. */
#ifndef FC_SAFETENSORS_HEADER_H
#define FC_SAFETENSORS_HEADER_H

#include "engine/base/json.h"
#include "engine/base/safetensors.h"

enum {
    FC_LENGTH_BYTES = 8,                   /* of the header length, before the header */
    FC_HEADER_LIMIT = 100 * 1000 * 1000    /* bytes; the limit of the format's own library */
};

struct fc_safetensors {
    char *path;
    int file;                   /* descriptor, or -1 for a header without data */
    cJSON *root;                /* owns the names of tensors and what metadata holds */
    const cJSON *metadata;      /* an object of strings, or NULL */
    size_t count;
    fc_tensor *tensors;         /* [count], by offset */
    const fc_tensor **by_name;  /* [count], by strcmp */
};

/* Parses and checks a header of header_bytes in a file of file_bytes and fills root, metadata,
 * count, tensors and by_name of *file, whose path is set. After a failure fc_safetensors_close
 * frees what was filled. Errors: FORMAT, MEMORY. */
flatclip_status fc_safetensors_take_header(fc_safetensors *file, const char *header,
                                           size_t header_bytes, uint64_t file_bytes,
                                           flatclip_error *err);

#endif
