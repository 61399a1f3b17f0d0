/* Reading zip archives, as torch.save and TorchScript write them: an untrusted format.
 *
 * Opening reads the directory alone and checks it: zip64 numbers, names, that every member's local
 * header agrees, that members lie inside the file and do not overlap. A member is stored (its bytes
 * are read in place) or deflated (it is inflated whole, up to a limit of the caller's). Encrypted
 * members, other methods and archives in several parts are refused by name. Memory is in proportion
 * to the directory, which may have 16 MiB (over 100,000 members); nothing else is kept. */
#ifndef FC_ZIP_H
#define FC_ZIP_H

#include "engine/base/error.h"

typedef struct fc_zip fc_zip;

typedef struct {
    const char *name;    /* with folders, "archive/data/0"; never empty, no NUL, owned by the zip */
    uint64_t bytes;      /* as it reads */
    uint64_t packed;     /* in the file; equal to bytes if it is stored */
    uint64_t offset;     /* of its first packed byte in the file */
    uint32_t crc32;      /* of what it reads as */
    int deflated;
} fc_zip_member;

/* Opens the archive that the descriptor file holds, which stays the caller's and must outlive the
 * zip; it is read with pread alone. path stands in messages. On success *zip is the caller's until
 * fc_zip_close.
 * Errors: IO, FORMAT (names the member), MEMORY. */
flatclip_status fc_zip_open(int file, const char *path, fc_zip **zip, flatclip_error *err);
void fc_zip_close(fc_zip *zip); /* NULL is allowed */

size_t fc_zip_count(const fc_zip *zip);
const fc_zip_member *fc_zip_at(const fc_zip *zip, size_t index); /* in the order of the file */
size_t fc_zip_index(const fc_zip *zip, const fc_zip_member *member); /* of one of its members */
const fc_zip_member *fc_zip_find(const fc_zip *zip, const char *name); /* or NULL; bisects */

/* Reads bytes first to first + bytes - 1 of a stored member. Does not allocate; several threads may
 * read one archive.
 * Errors: IO (names file and member), ARGUMENT for a deflated member or a range outside it. */
flatclip_status fc_zip_read(const fc_zip *zip, const fc_zip_member *member, uint64_t first,
                            size_t bytes, void *out, flatclip_error *err);

/* Reads a member whole, stored or deflated, and checks its checksum. On success *data [bytes + 1]
 * is the caller's to free, with a NUL after the end.
 * Errors: FORMAT where it is over limit bytes (says both), damaged, or longer or shorter than the
 * directory says; IO, MEMORY. */
flatclip_status fc_zip_read_whole(const fc_zip *zip, const fc_zip_member *member, uint64_t limit,
                                  unsigned char **data, flatclip_error *err);

/* Checks a member's checksum by reading it once, in pieces of a fixed size.
 * Errors: FORMAT for a wrong one, IO, MEMORY. */
flatclip_status fc_zip_verify(const fc_zip *zip, const fc_zip_member *member, flatclip_error *err);

#endif
