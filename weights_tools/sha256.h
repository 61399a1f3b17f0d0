/* SHA-256, as libcrypto computes it. */
#ifndef FC_SHA256_H
#define FC_SHA256_H

#include "engine/base/error.h"

typedef struct fc_sha256 fc_sha256;

/* Starts a hash, the caller's until fc_sha256_close. Errors: MEMORY. */
flatclip_status fc_sha256_open(fc_sha256 **hash, flatclip_error *err);

void fc_sha256_add(fc_sha256 *hash, const void *data, size_t bytes);

/* Adds the content of the file at path. Errors: IO. */
flatclip_status fc_sha256_add_file(fc_sha256 *hash, const char *path, flatclip_error *err);

/* Ends the hash; NULL is allowed. hex [65] receives it as lower-case digits, if not NULL. */
void fc_sha256_close(fc_sha256 *hash, char *hex);

/* The hash of one file. Errors: IO, MEMORY. */
flatclip_status fc_sha256_file(const char *path, char hex[65], flatclip_error *err);

#endif
