/* Opening zip archives and reading their members: in place where stored, through zlib's inflate
 * where deflated. zip_end.c and zip_directory.c decide what is accepted. */
#define _GNU_SOURCE
#include "weights_tools/zip_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    PIECE_BYTES = 64 << 10, /* of the pieces in which a checksum is computed, or data inflated */
    MOST_AT_ONCE = 1 << 30  /* bytes that read and zlib take in one call */
};

/* -- Opening and closing --------------------------------------------------------------------- */

flatclip_status fc_zip_read_exactly(const fc_zip *zip, const char *what, uint64_t offset,
                                    size_t bytes, void *out, flatclip_error *err)
{
    char *to = out;
    while (bytes) {
        const ssize_t got = pread(zip->file, to, bytes < MOST_AT_ONCE ? bytes : MOST_AT_ONCE,
                                  (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.80s of %.150s: %s", what,
                           zip->path, strerror(errno));
        if (got == 0)
            return fc_fail(err, FLATCLIP_ERR_IO,
                           "%.150s: the file ends early, inside %.80s: it was cut while in use",
                           zip->path, what);
        to += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return FLATCLIP_OK;
}

static flatclip_status build(fc_zip *zip, const char *path, flatclip_error *err)
{
    struct stat info;
    fc_zip_extent directory;
    zip->path = strdup(path);
    if (!zip->path)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", path);
    if (fstat(zip->file, &info))
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return fc_fail(err, FLATCLIP_ERR_IO, "%.200s is not a regular file", path);
    zip->file_bytes = (uint64_t)info.st_size;
    FC_TRY(fc_zip_find_directory(zip, &directory, err));
    return fc_zip_read_directory(zip, &directory, err);
}

flatclip_status fc_zip_open(int file, const char *path, fc_zip **zip, flatclip_error *err)
{
    *zip = NULL;
    fc_zip *built = calloc(1, sizeof *built);
    if (!built)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", path);
    built->file = file;
    const flatclip_status status = build(built, path, err);
    if (status == FLATCLIP_OK)
        *zip = built;
    else
        fc_zip_close(built);
    return status;
}

void fc_zip_close(fc_zip *zip)
{
    if (!zip)
        return;
    free(zip->entry);
    free(zip->by_name);
    free(zip->names);
    free(zip->path);
    free(zip);
}

/* -- Asking ---------------------------------------------------------------------------------- */

size_t fc_zip_count(const fc_zip *zip)
{
    return zip->count;
}

const fc_zip_member *fc_zip_at(const fc_zip *zip, size_t index)
{
    return &zip->entry[index].member;
}

size_t fc_zip_index(const fc_zip *zip, const fc_zip_member *member)
{
    return (size_t)((const fc_zip_entry *)member - zip->entry); /* it is the entry's first field */
}

static int compare_name_with_member(const void *name, const void *member)
{
    return strcmp(name, (*(const fc_zip_member *const *)member)->name);
}

const fc_zip_member *fc_zip_find(const fc_zip *zip, const char *name)
{
    const fc_zip_member **found = bsearch(name, zip->by_name, zip->count, sizeof *zip->by_name,
                                          compare_name_with_member);
    return found ? *found : NULL;
}

/* -- Inflating ------------------------------------------------------------------------------- */

typedef struct {
    const fc_zip *zip;
    const fc_zip_member *member;
    z_stream stream;
    uint64_t taken; /* packed bytes that were read */
    int ended;      /* the stream has said so itself */
    unsigned char packed[PIECE_BYTES];
} inflater;

static flatclip_status no_memory(const fc_zip *zip, const fc_zip_member *member,
                                 flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read member %.80s of %.150s",
                   member->name, zip->path);
}

static flatclip_status damaged(const fc_zip *zip, const fc_zip_member *member, const char *what,
                               flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.120s: member %.80s is damaged: %s", zip->path,
                   member->name, what);
}

/* Begins a deflated member. On success *from is the caller's until end_inflating. */
static flatclip_status begin_inflating(const fc_zip *zip, const fc_zip_member *member,
                                       inflater **from, flatclip_error *err)
{
    enum { RAW = -15 }; /* no zlib header; the largest window */
    inflater *begun = calloc(1, sizeof *begun);
    *from = NULL;
    if (!begun || inflateInit2(&begun->stream, RAW) != Z_OK) {
        free(begun);
        return no_memory(zip, member, err);
    }
    begun->zip = zip;
    begun->member = member;
    *from = begun;
    return FLATCLIP_OK;
}

static void end_inflating(inflater *from)
{
    inflateEnd(&from->stream);
    free(from);
}

static flatclip_status refill(inflater *from, flatclip_error *err)
{
    const uint64_t left = from->member->packed - from->taken;
    const size_t now = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
    FC_TRY(fc_zip_read_exactly(from->zip, from->member->name, from->member->offset + from->taken,
                               now, from->packed, err));
    from->stream.next_in = from->packed;
    from->stream.avail_in = (uInt)now;
    from->taken += now;
    return FLATCLIP_OK;
}

/* Fills out [capacity], or less of it where the stream ends: *got says how much. */
static flatclip_status inflate_some(inflater *from, unsigned char *out, size_t capacity,
                                    size_t *got, flatclip_error *err)
{
    z_stream *stream = &from->stream;
    for (*got = 0; *got < capacity && !from->ended;) {
        const size_t left = capacity - *got;
        const uInt room = (uInt)(left < MOST_AT_ONCE ? left : MOST_AT_ONCE);
        if (!stream->avail_in)
            FC_TRY(refill(from, err));
        stream->next_out = out + *got;
        stream->avail_out = room;
        const int result = inflate(stream, Z_NO_FLUSH);
        *got += room - stream->avail_out;
        from->ended = result == Z_STREAM_END;
        if (result == Z_MEM_ERROR)
            return no_memory(from->zip, from->member, err);
        if (result == Z_BUF_ERROR) /* there was room: what lacks is input */
            return damaged(from->zip, from->member, "its deflated data has no end", err);
        if (result != Z_OK && result != Z_STREAM_END)
            return damaged(from->zip, from->member, "its deflated data is not valid", err);
    }
    return FLATCLIP_OK;
}

/* Once the stream has ended, or gave more than it may: whether its bytes are as many as the member
 * has, and no packed ones are left. */
static flatclip_status check_end(const inflater *from, uint64_t bytes, flatclip_error *err)
{
    const fc_zip_member *member = from->member;
    if (bytes > member->bytes)
        return damaged(from->zip, member, "it inflates to more than the directory says", err);
    if (bytes < member->bytes)
        return damaged(from->zip, member, "it inflates to less than the directory says", err);
    if (from->stream.avail_in || from->taken < member->packed)
        return damaged(from->zip, member, "something follows its deflated data", err);
    return FLATCLIP_OK;
}

static flatclip_status check_crc(const fc_zip *zip, const fc_zip_member *member, uLong crc,
                                 flatclip_error *err)
{
    if (crc == member->crc32)
        return FLATCLIP_OK;
    if (member->crc32 == 0)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.100s: member %.80s has no checksum, so that damage cannot be told: save "
                       "it again without torch's set_crc32_options(False)", zip->path,
                       member->name);
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.100s: member %.80s has checksum %08lx, the directory says %08" PRIx32
                   ": the file is damaged, fetch it again", zip->path, member->name, crc,
                   member->crc32);
}

/* -- Reading --------------------------------------------------------------------------------- */

flatclip_status fc_zip_read(const fc_zip *zip, const fc_zip_member *member, uint64_t first,
                            size_t bytes, void *out, flatclip_error *err)
{
    if (member->deflated)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "%.120s: member %.80s is deflated, it can only be read whole", zip->path,
                       member->name);
    if (first > member->bytes || bytes > member->bytes - first)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "%.100s: member %.80s has %" PRIu64 " bytes, cannot read %zu from %" PRIu64,
                       zip->path, member->name, member->bytes, bytes, first);
    return fc_zip_read_exactly(zip, member->name, member->offset + first, bytes, out, err);
}

/* out has a byte more than the member: only a stream that is too long fills it. */
static flatclip_status inflate_whole(const fc_zip *zip, const fc_zip_member *member,
                                     unsigned char *out, flatclip_error *err)
{
    inflater *from;
    size_t got;
    FC_TRY(begin_inflating(zip, member, &from, err));
    flatclip_status status = inflate_some(from, out, (size_t)member->bytes + 1, &got, err);
    if (status == FLATCLIP_OK)
        status = check_end(from, got, err);
    end_inflating(from);
    return status;
}

static flatclip_status read_into(const fc_zip *zip, const fc_zip_member *member,
                                 unsigned char *out, flatclip_error *err)
{
    const size_t bytes = (size_t)member->bytes;
    if (member->deflated)
        FC_TRY(inflate_whole(zip, member, out, err));
    else
        FC_TRY(fc_zip_read(zip, member, 0, bytes, out, err));
    out[bytes] = '\0';
    return check_crc(zip, member, crc32_z(crc32_z(0, NULL, 0), out, bytes), err);
}

flatclip_status fc_zip_read_whole(const fc_zip *zip, const fc_zip_member *member, uint64_t limit,
                                  unsigned char **data, flatclip_error *err)
{
    *data = NULL;
    if (member->bytes > limit)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.100s: member %.80s has %" PRIu64 " bytes, the limit is %" PRIu64,
                       zip->path, member->name, member->bytes, limit);
    unsigned char *out = member->bytes < SIZE_MAX ? malloc((size_t)member->bytes + 1) : NULL;
    if (!out)
        return no_memory(zip, member, err);
    const flatclip_status status = read_into(zip, member, out, err);
    if (status == FLATCLIP_OK)
        *data = out;
    else
        free(out);
    return status;
}

static flatclip_status verify_stored(const fc_zip *zip, const fc_zip_member *member,
                                     unsigned char *piece, flatclip_error *err)
{
    uLong crc = crc32_z(0, NULL, 0);
    for (uint64_t at = 0; at < member->bytes;) {
        const uint64_t left = member->bytes - at;
        const size_t now = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        FC_TRY(fc_zip_read(zip, member, at, now, piece, err));
        crc = crc32_z(crc, piece, now);
        at += now;
    }
    return check_crc(zip, member, crc, err);
}

static flatclip_status verify_inflated(inflater *from, unsigned char *piece, flatclip_error *err)
{
    uLong crc = crc32_z(0, NULL, 0);
    uint64_t bytes = 0;
    while (!from->ended && bytes <= from->member->bytes) {
        size_t got;
        FC_TRY(inflate_some(from, piece, PIECE_BYTES, &got, err));
        crc = crc32_z(crc, piece, got);
        bytes += got;
    }
    FC_TRY(check_end(from, bytes, err));
    return check_crc(from->zip, from->member, crc, err);
}

flatclip_status fc_zip_verify(const fc_zip *zip, const fc_zip_member *member, flatclip_error *err)
{
    inflater *from = NULL;
    unsigned char *piece = malloc(PIECE_BYTES);
    flatclip_status status = piece ? FLATCLIP_OK : no_memory(zip, member, err);
    if (status == FLATCLIP_OK && member->deflated)
        status = begin_inflating(zip, member, &from, err);
    if (status == FLATCLIP_OK)
        status = from ? verify_inflated(from, piece, err) : verify_stored(zip, member, piece, err);
    if (from)
        end_inflating(from);
    free(piece);
    return status;
}
