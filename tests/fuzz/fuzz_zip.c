/* Fuzz target: any file as a zip archive, all of whose members are read in every way.
 *
 * Whatever is accepted must keep the promises that readers rely on; a broken one traps. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights_tools/zip.h"

enum { LIMIT = 1 << 20, PIECE = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds)
{
    if (!holds)
        __builtin_trap();
}

/* Members lie in the file one after the other, and are found by name. */
static void check_promises(const fc_zip *zip, size_t size)
{
    uint64_t at = 0;
    for (size_t i = 0; i < fc_zip_count(zip); i++) {
        const fc_zip_member *member = fc_zip_at(zip, i);
        demand(member->name[0] && fc_zip_find(zip, member->name) == member);
        demand(member->offset >= at && member->offset <= size);
        demand(member->packed <= size - member->offset);
        demand(member->deflated || member->packed == member->bytes);
        at = member->offset + member->packed;
    }
}

/* The pieces of a stored member are what it holds as a whole. */
static void read_pieces(const fc_zip *zip, const fc_zip_member *member, const uint8_t *expected)
{
    uint8_t piece[PIECE];
    for (uint64_t at = 0; at < member->bytes; at += PIECE) {
        const size_t now = member->bytes - at < PIECE ? (size_t)(member->bytes - at) : PIECE;
        demand(fc_zip_read(zip, member, at, now, piece, NULL) == FLATCLIP_OK);
        demand(!memcmp(piece, expected + member->offset + at, now));
    }
    demand(fc_zip_read(zip, member, member->bytes, 1, piece, NULL) == FLATCLIP_ERR_ARGUMENT);
}

static void read_member(const fc_zip *zip, const fc_zip_member *member, const uint8_t *archive)
{
    unsigned char *whole;
    flatclip_error err = { FLATCLIP_OK, "" };
    const flatclip_status status = fc_zip_read_whole(zip, member, LIMIT, &whole, &err);
    demand(status == FLATCLIP_OK || (err.status == FLATCLIP_ERR_FORMAT && !whole));
    if (member->bytes <= LIMIT)
        demand(fc_zip_verify(zip, member, &err) == status);
    if (status == FLATCLIP_OK)
        demand(whole[member->bytes] == '\0');
    free(whole);
    if (!member->deflated)
        read_pieces(zip, member, archive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fc_zip *zip;
    flatclip_error err = { FLATCLIP_OK, "" };
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file >= 0 && write(file, data, size) == (ssize_t)size) {
        const flatclip_status status = fc_zip_open(file, "fuzz", &zip, &err);
        demand(status == FLATCLIP_OK || (status == FLATCLIP_ERR_FORMAT && err.message[0] && !zip));
        if (zip) {
            check_promises(zip, size);
            for (size_t i = 0; i < fc_zip_count(zip); i++)
                read_member(zip, fc_zip_at(zip, i), data);
            fc_zip_close(zip);
        }
    }
    if (file >= 0)
        close(file);
    return 0;
}
