/* SHA-256 of memory and of files. */
#define _GNU_SOURCE
#include "weights_tools/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 256 << 10, DIGEST_BYTES = 32 };

struct fc_sha256 {
    EVP_MD_CTX *context;
    unsigned char buffer[BUFFER_BYTES]; /* of files */
};

flatclip_status fc_sha256_open(fc_sha256 **hash, flatclip_error *err)
{
    *hash = calloc(1, sizeof **hash);
    if (*hash)
        (*hash)->context = EVP_MD_CTX_new();
    if (*hash && (*hash)->context && EVP_DigestInit_ex((*hash)->context, EVP_sha256(), NULL))
        return FLATCLIP_OK;
    fc_sha256_close(*hash, NULL);
    *hash = NULL;
    return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to compute a sha256");
}

void fc_sha256_add(fc_sha256 *hash, const void *data, size_t bytes)
{
    EVP_DigestUpdate(hash->context, data, bytes);
}

flatclip_status fc_sha256_add_file(fc_sha256 *hash, const char *path, flatclip_error *err)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : 1;
    while (got > 0) {
        got = read(file, hash->buffer, BUFFER_BYTES);
        if (got > 0)
            fc_sha256_add(hash, hash->buffer, (size_t)got);
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    const int problem = errno;
    if (file >= 0)
        close(file);
    if (got < 0)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", path, strerror(problem));
    return FLATCLIP_OK;
}

void fc_sha256_close(fc_sha256 *hash, char *hex)
{
    unsigned char digest[DIGEST_BYTES];
    if (!hash)
        return;
    if (hex) {
        EVP_DigestFinal_ex(hash->context, digest, NULL);
        for (int i = 0; i < DIGEST_BYTES; i++)
            snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    EVP_MD_CTX_free(hash->context);
    free(hash);
}

flatclip_status fc_sha256_file(const char *path, char hex[65], flatclip_error *err)
{
    fc_sha256 *hash;
    FC_TRY(fc_sha256_open(&hash, err));
    const flatclip_status status = fc_sha256_add_file(hash, path, err);
    fc_sha256_close(hash, status == FLATCLIP_OK ? hex : NULL);
    return status;
}
