/* Reading and checking the directory of a zip archive, and every member's local header.
 *
 * The directory alone says what a member is; a local header only has to agree. What is accepted
 * lies in the file as disjoint pieces, in front of the directory, under different names, packed by
 * a method that we have, and with a size that its packed bytes can yield. */
#include "weights_tools/zip_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/utf8.h"

enum {
    ENTRY_SIGNATURE = 0x02014b50,
    LOCAL_SIGNATURE = 0x04034b50,
    LOCAL_BYTES = 30,           /* of a local header, without name and extra */
    NAME_LIMIT = 65535,         /* its length has 16 bits, and so has that of extra */
    ZIP64_FIELD = 0x0001,
    DEFLATE_GAIN = 1032,        /* bytes at most from one: 258 from a length and a distance of a
                                 * bit each */
    STORED = 0,
    DEFLATED = 8,
    FLAG_LEVEL = 0x0006,        /* how hard deflate tried: of no matter */
    FLAG_DESCRIPTOR = 0x0008,   /* sizes follow the data: those in the local header are void */
    FLAG_UTF8 = 0x0800,
    FLAGS_ENCRYPTED = 0x2041    /* encrypted; strongly; with a masked directory */
};

/* -- Directory entries ----------------------------------------------------------------------- */

typedef struct {
    unsigned flags, method, name_bytes, extra_bytes, comment_bytes, disk;
} entry_head;

static void decode_head(const unsigned char *at, entry_head *head, fc_zip_entry *entry)
{
    head->flags = fc_zip_u16(at + 8);
    head->method = fc_zip_u16(at + 10);
    head->name_bytes = fc_zip_u16(at + 28);
    head->extra_bytes = fc_zip_u16(at + 30);
    head->comment_bytes = fc_zip_u16(at + 32);
    head->disk = fc_zip_u16(at + 34);
    entry->member.crc32 = fc_zip_u32(at + 16);
    entry->member.packed = fc_zip_u32(at + 20);
    entry->member.bytes = fc_zip_u32(at + 24);
    entry->member.deflated = head->method == DEFLATED;
    entry->header = fc_zip_u32(at + 42);
    entry->flags = head->flags;
}

/* Replaces those of the count numbers that are saturated by what the zip64 field of extra says: it
 * holds exactly them, in this order. Returns 0 if it does not. */
static int widen(const unsigned char *extra, size_t extra_bytes, uint64_t *const *number,
                 size_t count)
{
    size_t needed = 0;
    for (size_t i = 0; i < count; i++)
        needed += *number[i] == UINT32_MAX;
    while (needed && extra_bytes >= 4) {
        const size_t field_bytes = fc_zip_u16(extra + 2);
        if (field_bytes > extra_bytes - 4)
            return 0;
        if (fc_zip_u16(extra) == ZIP64_FIELD) {
            if (field_bytes < 8 * needed)
                return 0;
            const unsigned char *field = extra + 4;
            for (size_t i = 0; i < count; i++)
                if (*number[i] == UINT32_MAX) {
                    *number[i] = fc_zip_u64(field);
                    field += 8;
                }
            return 1;
        }
        extra += 4 + field_bytes;
        extra_bytes -= 4 + field_bytes;
    }
    return !needed;
}

static flatclip_status check_name(const fc_zip *zip, const char *name, size_t bytes,
                                  unsigned flags, flatclip_error *err)
{
    if (!bytes || memchr(name, '\0', bytes))
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: a member's name is empty or holds a NUL "
                       "(%.80s)", zip->path, name);
    for (size_t i = 0, step; flags & FLAG_UTF8 && i < bytes; i += step) {
        step = fc_utf8_bytes(name + i, bytes - i);
        if (!step)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.100s: the name of member %.100s is said to be UTF-8, and is not",
                           zip->path, name);
    }
    return FLATCLIP_OK;
}

/* Refuses what is not read, by its name. */
static flatclip_status check_kind(const fc_zip *zip, const char *name, const entry_head *head,
                                  flatclip_error *err)
{
    if (head->flags & FLAGS_ENCRYPTED)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.100s: member %.80s is encrypted: save the archive without a password",
                       zip->path, name);
    if (head->flags & ~(unsigned)(FLAG_LEVEL | FLAG_DESCRIPTOR | FLAG_UTF8))
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.100s: member %.80s has flags 0x%04x, some of which are not known here",
                       zip->path, name, head->flags);
    if (head->method != STORED && head->method != DEFLATED)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.100s: member %.80s is packed with method %u; only 0 (stored) and 8 "
                       "(deflated) are read", zip->path, name, head->method);
    if (head->disk)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.100s: member %.80s lies in part %u of an archive in several files, "
                       "which is not read", zip->path, name, head->disk + 1);
    return FLATCLIP_OK;
}

static flatclip_status check_sizes(const fc_zip *zip, const fc_zip_member *member,
                                   flatclip_error *err)
{
    if (!member->deflated && member->packed != member->bytes)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.80s: member %.80s is stored, but has %" PRIu64 " bytes in the file and "
                       "%" PRIu64 " outside", zip->path, member->name, member->packed,
                       member->bytes);
    if (member->packed > zip->file_bytes)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.80s: member %.80s is said to have %" PRIu64 " bytes, the whole file has "
                       "only %" PRIu64, zip->path, member->name, member->packed, zip->file_bytes);
    if (member->bytes / DEFLATE_GAIN + !!(member->bytes % DEFLATE_GAIN) > member->packed)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.80s: member %.80s is said to inflate from %" PRIu64 " to %" PRIu64
                       " bytes, which deflate cannot do", zip->path, member->name, member->packed,
                       member->bytes);
    if (member->name[strlen(member->name) - 1] == '/' && member->packed)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.100s: folder %.80s holds %" PRIu64 " bytes",
                       zip->path, member->name, member->packed);
    return FLATCLIP_OK;
}

/* Reads the entry at *at, of which end - *at bytes may be read, and moves on. Its name goes to
 * *names, with a NUL: there it takes less room than the entry did here. */
static flatclip_status take_entry(const fc_zip *zip, const unsigned char **at,
                                  const unsigned char *end, char **names, fc_zip_entry *entry,
                                  flatclip_error *err)
{
    entry_head head;
    size_t left = (size_t)(end - *at);
    if (left < FC_ZIP_ENTRY_BYTES || fc_zip_u32(*at) != ENTRY_SIGNATURE)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: there is no member's entry %zu bytes before the end of the "
                       "directory: its count disagrees, or it is damaged", zip->path, left);
    decode_head(*at, &head, entry);
    left -= FC_ZIP_ENTRY_BYTES;
    if (left < head.name_bytes + head.extra_bytes + head.comment_bytes)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: an entry does not fit in the rest of the directory", zip->path);
    char *name = *names;
    const unsigned char *extra = *at + FC_ZIP_ENTRY_BYTES + head.name_bytes;
    memmove(name, *at + FC_ZIP_ENTRY_BYTES, head.name_bytes);
    name[head.name_bytes] = '\0';
    *names += head.name_bytes + 1;
    *at = extra + head.extra_bytes + head.comment_bytes;
    entry->member.name = name;

    FC_TRY(check_name(zip, name, head.name_bytes, head.flags, err));
    FC_TRY(check_kind(zip, name, &head, err));
    uint64_t *const number[] = { &entry->member.bytes, &entry->member.packed, &entry->header };
    if (!widen(extra, head.extra_bytes, number, sizeof number / sizeof *number))
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.100s: member %.80s needs a zip64 field, which is missing or damaged",
                       zip->path, name);
    return check_sizes(zip, &entry->member, err);
}

/* -- Local headers --------------------------------------------------------------------------- */

static flatclip_status disagree(const fc_zip *zip, const fc_zip_entry *entry, const char *what,
                                flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.100s: the header of member %.80s at %" PRIu64 " disagrees with the directory "
                   "about its %s", zip->path, entry->member.name, entry->header, what);
}

/* Compares the checksum and sizes of a local header. scratch [NAME_LIMIT] holds its extra. */
static flatclip_status check_local_sizes(const fc_zip *zip, const fc_zip_entry *entry,
                                         const unsigned char *local, uint64_t extra_offset,
                                         size_t extra_bytes, unsigned char *scratch,
                                         flatclip_error *err)
{
    const fc_zip_member *member = &entry->member;
    uint64_t packed = fc_zip_u32(local + 18), bytes = fc_zip_u32(local + 22);
    uint64_t *const number[] = { &bytes, &packed };
    if (fc_zip_u32(local + 14) != member->crc32)
        return disagree(zip, entry, "checksum", err);
    if (packed == UINT32_MAX || bytes == UINT32_MAX) {
        FC_TRY(fc_zip_read_exactly(zip, member->name, extra_offset, extra_bytes, scratch, err));
        if (!widen(scratch, extra_bytes, number, sizeof number / sizeof *number))
            return disagree(zip, entry, "size", err);
    }
    return packed == member->packed && bytes == member->bytes ? FLATCLIP_OK
                                                              : disagree(zip, entry, "size", err);
}

/* Checks the local header of entry and where its data lies: all of it before limit, the offset of
 * the directory. Fills the member's offset. scratch has LOCAL_BYTES + NAME_LIMIT bytes. */
static flatclip_status check_local(const fc_zip *zip, fc_zip_entry *entry, uint64_t limit,
                                   unsigned char *scratch, flatclip_error *err)
{
    fc_zip_member *member = &entry->member;
    const size_t name_bytes = strlen(member->name), head_bytes = LOCAL_BYTES + name_bytes;
    const char *into_directory = "%.100s: member %.80s at %" PRIu64 " reaches into the directory";
    if (entry->header > limit || limit - entry->header < head_bytes)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, into_directory, zip->path, member->name,
                       entry->header);
    FC_TRY(fc_zip_read_exactly(zip, member->name, entry->header, head_bytes, scratch, err));
    if (fc_zip_u32(scratch) != LOCAL_SIGNATURE)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.100s: member %.80s has no header at %" PRIu64 ", where the directory "
                       "says it begins", zip->path, member->name, entry->header);
    if (fc_zip_u16(scratch + 6) != entry->flags)
        return disagree(zip, entry, "flags", err);
    if (fc_zip_u16(scratch + 8) != (member->deflated ? DEFLATED : STORED))
        return disagree(zip, entry, "method", err);
    if (fc_zip_u16(scratch + 26) != name_bytes ||
        memcmp(scratch + LOCAL_BYTES, member->name, name_bytes))
        return disagree(zip, entry, "name", err);

    const size_t extra_bytes = fc_zip_u16(scratch + 28);
    const uint64_t room = limit - entry->header - head_bytes;
    if (extra_bytes > room || member->packed > room - extra_bytes)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, into_directory, zip->path, member->name,
                       entry->header);
    member->offset = entry->header + head_bytes + extra_bytes;
    if (entry->flags & FLAG_DESCRIPTOR)
        return FLATCLIP_OK;
    return check_local_sizes(zip, entry, scratch, entry->header + head_bytes, extra_bytes,
                             scratch + LOCAL_BYTES, err);
}

/* -- The whole ------------------------------------------------------------------------------- */

static int compare_headers(const void *a, const void *b)
{
    const fc_zip_entry *left = a, *right = b;
    return (left->header > right->header) - (left->header < right->header);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const fc_zip_member *const *)a)->name,
                  (*(const fc_zip_member *const *)b)->name);
}

static flatclip_status take_entries(fc_zip *zip, const fc_zip_extent *directory,
                                    flatclip_error *err)
{
    const unsigned char *at = (unsigned char *)zip->names, *end = at + directory->bytes;
    char *names = zip->names;
    for (; zip->count < directory->count; zip->count++)
        FC_TRY(take_entry(zip, &at, end, &names, &zip->entry[zip->count], err));
    if (at != end)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: the directory has %zu bytes more than its %zu members need: its "
                       "count disagrees, or it is damaged", zip->path, (size_t)(end - at),
                       zip->count);
    return FLATCLIP_OK;
}

/* Checks the members in the order of the file: none may begin before the last one has ended. */
static flatclip_status check_layout(fc_zip *zip, const fc_zip_extent *directory,
                                    flatclip_error *err)
{
    if (zip->count)
        qsort(zip->entry, zip->count, sizeof *zip->entry, compare_headers);
    const uint64_t first = zip->count ? zip->entry[0].header : directory->offset;
    if (first)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s has %" PRIu64 " bytes before its first member, expected none",
                       zip->path, first);
    unsigned char *scratch = malloc(LOCAL_BYTES + NAME_LIMIT);
    flatclip_status status = FLATCLIP_OK;
    if (!scratch)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", zip->path);
    for (size_t i = 0; status == FLATCLIP_OK && i < zip->count; i++) {
        const fc_zip_member *before = i ? &zip->entry[i - 1].member : NULL;
        if (before && zip->entry[i].header < before->offset + before->packed)
            status = fc_fail(err, FLATCLIP_ERR_FORMAT, "%.100s: members %.80s and %.80s overlap",
                             zip->path, before->name, zip->entry[i].member.name);
        else
            status = check_local(zip, &zip->entry[i], directory->offset, scratch, err);
    }
    free(scratch);
    return status;
}

static flatclip_status sort_names(fc_zip *zip, flatclip_error *err)
{
    for (size_t i = 0; i < zip->count; i++)
        zip->by_name[i] = &zip->entry[i].member;
    if (zip->count)
        qsort(zip->by_name, zip->count, sizeof *zip->by_name, compare_names);
    for (size_t i = 1; i < zip->count; i++)
        if (!compare_names(&zip->by_name[i - 1], &zip->by_name[i]))
            return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.100s holds two members named %.100s",
                           zip->path, zip->by_name[i]->name);
    return FLATCLIP_OK;
}

flatclip_status fc_zip_read_directory(fc_zip *zip, const fc_zip_extent *directory,
                                      flatclip_error *err)
{
    const size_t bytes = (size_t)directory->bytes, count = (size_t)directory->count;
    zip->names = malloc(bytes + 1);
    zip->entry = malloc((count + 1) * sizeof *zip->entry);
    zip->by_name = malloc((count + 1) * sizeof *zip->by_name);
    if (!zip->names || !zip->entry || !zip->by_name)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a directory of %zu members of "
                       "%.150s", count, zip->path);
    FC_TRY(fc_zip_read_exactly(zip, "the directory", directory->offset, bytes, zip->names, err));
    FC_TRY(take_entries(zip, directory, err));
    FC_TRY(check_layout(zip, directory, err));
    return sort_names(zip, err);
}
