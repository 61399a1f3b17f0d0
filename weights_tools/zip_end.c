/* Finding the directory of a zip archive: by the records with which the file ends.
 *
 * The last one is the end record, 22 bytes and a comment. Where its numbers are too small, a zip64
 * record with larger ones, and a locator that says where it is, lie right before it:
 *
 *     members | directory | zip64 record | locator | end record | comment
 *
 * Nothing else may lie in between: what strict readers and lenient ones see is then the same. */
#include "weights_tools/zip_parts.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    RECORD_BYTES = 56,
    COMMENT_LIMIT = 65535,
    DIRECTORY_LIMIT = 16 << 20, /* over 100,000 members; large checkpoints have some thousand */
    END_SIGNATURE = 0x06054b50,
    LOCATOR_SIGNATURE = 0x07064b50,
    RECORD_SIGNATURE = 0x06064b50
};

/* The offset in tail of the last end record whose comment fills the rest; tail_bytes if none. */
static size_t search_end(const unsigned char *tail, size_t tail_bytes)
{
    for (size_t i = tail_bytes - END_BYTES + 1; i-- > 0;)
        if (fc_zip_u32(tail + i) == END_SIGNATURE &&
            fc_zip_u16(tail + i + 20) == tail_bytes - i - END_BYTES)
            return i;
    return tail_bytes;
}

/* Copies the end record and says where it lies. */
static flatclip_status find_end(const fc_zip *zip, unsigned char end[END_BYTES],
                                uint64_t *end_offset, flatclip_error *err)
{
    const size_t most = END_BYTES + COMMENT_LIMIT;
    const size_t tail_bytes = zip->file_bytes < most ? (size_t)zip->file_bytes : most;
    if (tail_bytes < END_BYTES)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s has %zu bytes: too short for a zip archive", zip->path, tail_bytes);
    unsigned char *tail = malloc(tail_bytes);
    if (!tail)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", zip->path);
    const uint64_t tail_offset = zip->file_bytes - tail_bytes;
    flatclip_status status = fc_zip_read_exactly(zip, "its end", tail_offset, tail_bytes, tail,
                                                 err);
    if (status == FLATCLIP_OK) {
        const size_t found = search_end(tail, tail_bytes);
        if (found < tail_bytes)
            memcpy(end, tail + found, END_BYTES);
        else
            status = fc_fail(err, FLATCLIP_ERR_FORMAT,
                             "%.150s does not end as a zip archive does: it is none, or was cut "
                             "short; fetch it again", zip->path);
        *end_offset = tail_offset + found;
    }
    free(tail);
    return status;
}

static flatclip_status refuse_parts(const fc_zip *zip, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.150s is one part of a zip archive in several files, which is not read: join "
                   "them first", zip->path);
}

/* Whether the end record says what the zip64 record does, or leaves it open by being saturated. */
static int end_agrees(const unsigned char *end, const fc_zip_extent *directory)
{
    const uint64_t narrow[4] = { fc_zip_u16(end + 4), fc_zip_u16(end + 6), fc_zip_u16(end + 8),
                                 fc_zip_u16(end + 10) };
    const uint64_t wide[2] = { fc_zip_u32(end + 12), fc_zip_u32(end + 16) };
    const uint64_t expected[6] = { 0, 0, directory->count, directory->count, directory->bytes,
                                   directory->offset };
    int agrees = 1;
    for (int i = 0; i < 4; i++)
        agrees &= narrow[i] == UINT16_MAX || narrow[i] == expected[i];
    for (int i = 0; i < 2; i++)
        agrees &= wide[i] == UINT32_MAX || wide[i] == expected[4 + i];
    return agrees;
}

/* Reads the zip64 record that locator points to; end says the same where its numbers suffice. */
static flatclip_status read_record(const fc_zip *zip, const unsigned char *locator,
                                   uint64_t locator_offset, const unsigned char *end,
                                   fc_zip_extent *directory, uint64_t *record_offset,
                                   flatclip_error *err)
{
    unsigned char record[RECORD_BYTES];
    *record_offset = fc_zip_u64(locator + 8);
    if (fc_zip_u32(locator + 4) || fc_zip_u32(locator + 16) > 1)
        return refuse_parts(zip, err);
    if (locator_offset < RECORD_BYTES || *record_offset > locator_offset - RECORD_BYTES)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: the zip64 record is said to be at %" PRIu64 ", where it has no "
                       "room before its locator at %" PRIu64, zip->path, *record_offset,
                       locator_offset);
    FC_TRY(fc_zip_read_exactly(zip, "the zip64 record", *record_offset, RECORD_BYTES, record,
                               err));
    if (fc_zip_u32(record) != RECORD_SIGNATURE ||
        fc_zip_u64(record + 4) != locator_offset - *record_offset - 12)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: there is no whole zip64 record at %" PRIu64 ", where its locator "
                       "points", zip->path, *record_offset);
    directory->count = fc_zip_u64(record + 32);
    directory->bytes = fc_zip_u64(record + 40);
    directory->offset = fc_zip_u64(record + 48);
    if (fc_zip_u32(record + 16) || fc_zip_u32(record + 20) ||
        fc_zip_u64(record + 24) != directory->count)
        return refuse_parts(zip, err);
    if (!end_agrees(end, directory))
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: the end of the zip archive and its zip64 record disagree",
                       zip->path);
    return FLATCLIP_OK;
}

static flatclip_status read_end(const fc_zip *zip, const unsigned char *end,
                                fc_zip_extent *directory, flatclip_error *err)
{
    directory->count = fc_zip_u16(end + 10);
    directory->bytes = fc_zip_u32(end + 12);
    directory->offset = fc_zip_u32(end + 16);
    if (fc_zip_u16(end + 4) || fc_zip_u16(end + 6) || fc_zip_u16(end + 8) != directory->count)
        return refuse_parts(zip, err);
    return FLATCLIP_OK;
}

flatclip_status fc_zip_find_directory(const fc_zip *zip, fc_zip_extent *directory,
                                      flatclip_error *err)
{
    unsigned char end[END_BYTES] = { 0 }, locator[LOCATOR_BYTES] = { 0 };
    uint64_t directory_end = 0;
    FC_TRY(find_end(zip, end, &directory_end, err));
    if (directory_end >= LOCATOR_BYTES)
        FC_TRY(fc_zip_read_exactly(zip, "its end", directory_end - LOCATOR_BYTES, LOCATOR_BYTES,
                                   locator, err));
    if (fc_zip_u32(locator) == LOCATOR_SIGNATURE)
        FC_TRY(read_record(zip, locator, directory_end - LOCATOR_BYTES, end, directory,
                           &directory_end, err));
    else
        FC_TRY(read_end(zip, end, directory, err));

    if (directory->offset > directory_end || directory->bytes != directory_end - directory->offset)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: a directory of %" PRIu64 " bytes at %" PRIu64 " does not end at "
                       "%" PRIu64 ", where the archive ends: damaged, or something was put before "
                       "it", zip->path, directory->bytes, directory->offset, directory_end);
    if (directory->bytes > DIRECTORY_LIMIT)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: a directory of %" PRIu64 " bytes is over the limit of %d",
                       zip->path, directory->bytes, DIRECTORY_LIMIT);
    if (directory->count > directory->bytes / FC_ZIP_ENTRY_BYTES)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: %" PRIu64 " members do not fit in a directory of %" PRIu64
                       " bytes", zip->path, directory->count, directory->bytes);
    return FLATCLIP_OK;
}
