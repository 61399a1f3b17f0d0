/* The two containers of torch.save. */
#define _GNU_SOURCE
#include "weights_tools/torch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_LOOK = 1 << 20,               /* bytes of a legacy file in which its pickles may end */
    PICKLE_LIMIT = 32 << 20,            /* bytes of a pickle; real ones have some 100,000 */
    INFLATED_LIMIT = 512 << 20,         /* bytes of a deflated storage */
    NAME_LIMIT = 1024                   /* bytes of a member's name */
};

/* Where the bytes of a legacy file's storage are. */
typedef struct {
    const char *key;
    uint64_t offset, bytes;
} place;

struct fc_torch_file {
    char *path;
    int file;
    fc_pickle *pickle;
    /* An archive: */
    fc_zip *zip;
    char *folder;                       /* of all its members, "archive/" */
    unsigned char *verified;            /* [members]: nonzero once its checksum was right */
    const fc_zip_member *inflated;      /* whose bytes are in inflated_bytes */
    unsigned char *inflated_bytes;
    /* A legacy file: */
    fc_pickle *keys;                    /* the pickle that place's keys belong to */
    place *places;                      /* [place_count], sorted by key */
    size_t place_count;
};

static flatclip_status no_memory(const fc_torch_file *file, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", file->path);
}

static flatclip_status read_exactly(const fc_torch_file *file, void *out, size_t bytes,
                                    uint64_t offset, flatclip_error *err)
{
    char *at = out;
    while (bytes) {
        const ssize_t got = pread(file->file, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", file->path,
                           strerror(errno));
        if (got == 0)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.150s ends at byte %" PRIu64 ", within its tensors: it is not "
                           "complete", file->path, offset);
        at += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return FLATCLIP_OK;
}

static flatclip_status refuse_big_endian(const fc_torch_file *file, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.150s comes from a big-endian machine, whose numbers are not read here",
                   file->path);
}

/* -- Archives -------------------------------------------------------------------------------- */

const fc_zip_member *fc_torch_file_member(const fc_torch_file *file, const char *first,
                                          const char *second)
{
    char name[NAME_LIMIT];
    const int length = snprintf(name, sizeof name, "%s%s%s", file->folder, first, second);
    return length < NAME_LIMIT ? fc_zip_find(file->zip, name) : NULL;
}

/* The folder of the one data.pkl that lies in a folder of the first level. */
static flatclip_status find_folder(fc_torch_file *file, flatclip_error *err)
{
    static const char wanted[] = "data.pkl";
    for (size_t i = 0; i < fc_zip_count(file->zip); i++) {
        const char *name = fc_zip_at(file->zip, i)->name;
        const char *slash = strchr(name, '/');
        if (!slash || strcmp(slash + 1, wanted) || strlen(name) >= NAME_LIMIT)
            continue;
        if (file->folder)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.120s holds several pickles, %.40sdata.pkl and %.40s", file->path,
                           file->folder, name);
        file->folder = strndup(name, (size_t)(slash + 1 - name));
        if (!file->folder)
            return no_memory(file, err);
    }
    if (!file->folder)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s is a zip archive without data.pkl: torch.save did not write it. "
                       "Archives of several files must be unpacked first", file->path);
    return FLATCLIP_OK;
}

/* Files since PyTorch 2.1 say which end comes first; before, only little-endian ones were usual. */
static flatclip_status check_byte_order(const fc_torch_file *file, flatclip_error *err)
{
    unsigned char *text;
    const fc_zip_member *member = fc_torch_file_member(file, "byteorder", "");
    if (!member)
        return FLATCLIP_OK;
    FC_TRY(fc_zip_read_whole(file->zip, member, 16, &text, err));
    const int big = strcmp((const char *)text, "little") != 0;
    free(text);
    return big ? refuse_big_endian(file, err) : FLATCLIP_OK;
}

static flatclip_status open_archive(fc_torch_file *file, flatclip_error *err)
{
    unsigned char *data;
    size_t used;
    FC_TRY(fc_zip_open(file->file, file->path, &file->zip, err));
    FC_TRY(find_folder(file, err));
    FC_TRY(check_byte_order(file, err));
    const fc_zip_member *member = fc_torch_file_member(file, "data.pkl", "");
    file->verified = calloc(fc_zip_count(file->zip), 1);
    if (!file->verified)
        return no_memory(file, err);
    FC_TRY(fc_zip_read_whole(file->zip, member, PICKLE_LIMIT, &data, err));
    const flatclip_status status = fc_pickle_read(file->path, data, (size_t)member->bytes,
                                                  &file->pickle, &used, err);
    free(data);
    return status;
}

/* The member of a storage, whose size and checksum are right. */
static flatclip_status find_storage(fc_torch_file *file, const fc_pickle_value *storage,
                                    const fc_zip_member **member, flatclip_error *err)
{
    *member = fc_torch_file_member(file, "data/", storage->text);
    if (!*member)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: storage %.60s is missing: there is no %.40sdata/%.60s", file->path,
                       storage->text, file->folder, storage->text);
    const uint64_t expected = storage->elements * fc_dtype_bytes(storage->dtype);
    if ((*member)->bytes != expected)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: storage %.60s has %" PRIu64 " bytes, expected %" PRIu64,
                       file->path, storage->text, (*member)->bytes, expected);
    unsigned char *verified = &file->verified[fc_zip_index(file->zip, *member)];
    if (!*verified && !(*member)->deflated)
        FC_TRY(fc_zip_verify(file->zip, *member, err));
    *verified = 1;
    return FLATCLIP_OK;
}

static flatclip_status read_from_archive(fc_torch_file *file, const fc_pickle_value *storage,
                                         uint64_t first, size_t bytes, void *out,
                                         flatclip_error *err)
{
    const fc_zip_member *member;
    FC_TRY(find_storage(file, storage, &member, err));
    if (!member->deflated)
        return fc_zip_read(file->zip, member, first, bytes, out, err);
    if (file->inflated != member) {
        free(file->inflated_bytes);
        file->inflated_bytes = NULL;
        file->inflated = NULL;
        FC_TRY(fc_zip_read_whole(file->zip, member, INFLATED_LIMIT, &file->inflated_bytes, err));
        file->inflated = member;
    }
    memcpy(out, file->inflated_bytes + first, bytes);
    return FLATCLIP_OK;
}

/* -- Legacy files ---------------------------------------------------------------------------- */

/* 0x1950a86a20f9469cfc6c, which torch.save puts first. */
static int is_magic(const fc_pickle_value *value)
{
    static const unsigned char magic[] = { 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50,
                                           0x19 };
    return value->kind == FC_PICKLE_LONG && value->length == sizeof magic &&
           !memcmp(value->text, magic, sizeof magic);
}

static int says_big_endian(const fc_pickle_value *facts)
{
    for (size_t i = 0; facts->kind == FC_PICKLE_DICT && i + 1 < facts->count; i += 2)
        if (facts->item[i]->kind == FC_PICKLE_TEXT &&
            !strcmp(facts->item[i]->text, "little_endian") &&
            facts->item[i + 1]->kind == FC_PICKLE_BOOL)
            return !facts->item[i + 1]->integer;
    return 0;
}

/* The five pickles in the bytes of head; *end is where they end. */
static flatclip_status read_pickles(fc_torch_file *file, const unsigned char *head, size_t bytes,
                                    size_t *end, flatclip_error *err)
{
    enum { MAGIC, VERSION, FACTS, OBJECT, KEYS };
    *end = 0;
    for (int i = MAGIC; i <= KEYS; i++) {
        fc_pickle *pickle;
        size_t used;
        FC_TRY(fc_pickle_read(file->path, head + *end, bytes - *end, &pickle, &used, err));
        *end += used;
        const fc_pickle_value *root = fc_pickle_root(pickle);
        const int wrong_magic = i == MAGIC && !is_magic(root);
        const int big_endian = i == FACTS && says_big_endian(root);
        if (i == OBJECT)
            file->pickle = pickle;
        else if (i == KEYS)
            file->keys = pickle;
        else
            fc_pickle_close(pickle);
        if (wrong_magic)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.150s is a Python pickle, but torch.save did not write it: save the "
                           "weights with torch.save(model.state_dict(), FILE)", file->path);
        if (big_endian)
            return refuse_big_endian(file, err);
    }
    return FLATCLIP_OK;
}

/* Reads the pickles from as little of the file as holds them: how much that is, only their end
 * tells. */
static flatclip_status read_head(fc_torch_file *file, uint64_t file_bytes, size_t *end,
                                 flatclip_error *err)
{
    flatclip_status status = FLATCLIP_ERR_FORMAT;
    for (uint64_t look = FIRST_LOOK;; look *= 4) {
        const size_t bytes = file_bytes < look ? (size_t)file_bytes : (size_t)look;
        unsigned char *head = malloc(bytes + 1);
        if (!head)
            return no_memory(file, err);
        status = read_exactly(file, head, bytes, 0, err);
        if (status == FLATCLIP_OK)
            status = read_pickles(file, head, bytes, end, err);
        free(head);
        if (status != FLATCLIP_ERR_FORMAT || bytes == file_bytes || look * 4 > PICKLE_LIMIT)
            return status;
        fc_pickle_close(file->pickle);
        file->pickle = NULL;
    }
}

static int compare_storages(const void *a, const void *b)
{
    const fc_pickle_value *const *first = a, *const *second = b;
    return strcmp((*first)->text, (*second)->text);
}

static int compare_places(const void *a, const void *b)
{
    return strcmp(((const place *)a)->key, ((const place *)b)->key);
}

/* Finds where one storage lies: at *at, which moves behind it. mentions are sorted. */
static flatclip_status find_place(fc_torch_file *file, const fc_pickle_value *key,
                                  const fc_pickle_value **mentions, size_t mention_count,
                                  uint64_t file_bytes, uint64_t *at, flatclip_error *err)
{
    uint64_t elements;
    const fc_pickle_value **mention = key->kind == FC_PICKLE_TEXT
        ? bsearch(&key, mentions, mention_count, sizeof *mentions, compare_storages) : NULL;
    if (!mention)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s lists storage %.60s, which nothing mentions: it is damaged",
                       file->path, key->kind == FC_PICKLE_TEXT ? key->text : "(no text)");
    FC_TRY(read_exactly(file, &elements, sizeof elements, *at, err));
    const uint64_t bytes = (*mention)->elements * fc_dtype_bytes((*mention)->dtype);
    *at += sizeof elements;
    if (elements != (*mention)->elements || bytes > file_bytes - *at)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.120s: storage %.40s has %" PRIu64 " elements at byte %" PRIu64
                       ", expected %" PRIu64 " that end before byte %" PRIu64
                       ": it is damaged or not complete", file->path, key->text, elements, *at,
                       (*mention)->elements, file_bytes);
    file->places[file->place_count++] = (place){ key->text, *at, bytes };
    *at += bytes;
    return FLATCLIP_OK;
}

static flatclip_status find_places(fc_torch_file *file, uint64_t file_bytes, uint64_t at,
                                   flatclip_error *err)
{
    size_t mention_count;
    const fc_pickle_value *keys = fc_pickle_root(file->keys);
    const fc_pickle_value *const *mentioned = fc_pickle_storages(file->pickle, &mention_count);
    if (keys->kind != FC_PICKLE_LIST)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s has no list of storages: it is damaged",
                       file->path);
    const fc_pickle_value **sorted = malloc((mention_count + 1) * sizeof *sorted);
    file->places = malloc((keys->count + 1) * sizeof *file->places);
    flatclip_status status = sorted && file->places ? FLATCLIP_OK : no_memory(file, err);
    if (status == FLATCLIP_OK) {
        memcpy(sorted, mentioned, mention_count * sizeof *sorted);
        qsort(sorted, mention_count, sizeof *sorted, compare_storages);
    }
    for (size_t i = 0; i < keys->count && status == FLATCLIP_OK; i++)
        status = find_place(file, keys->item[i], sorted, mention_count, file_bytes, &at, err);
    free(sorted);
    if (status == FLATCLIP_OK)
        qsort(file->places, file->place_count, sizeof *file->places, compare_places);
    return status;
}

static flatclip_status open_legacy(fc_torch_file *file, flatclip_error *err)
{
    size_t end = 0;
    const off_t file_bytes = lseek(file->file, 0, SEEK_END);
    if (file_bytes < 0)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", file->path,
                       strerror(errno));
    FC_TRY(read_head(file, (uint64_t)file_bytes, &end, err));
    return find_places(file, (uint64_t)file_bytes, end, err);
}

static flatclip_status read_from_legacy(const fc_torch_file *file, const fc_pickle_value *storage,
                                        uint64_t first, size_t bytes, void *out,
                                        flatclip_error *err)
{
    const place wanted = { storage->text, 0, 0 };
    const place *found = bsearch(&wanted, file->places, file->place_count, sizeof *file->places,
                                 compare_places);
    /* A storage may be mentioned twice, and each time with another size. */
    if (!found || first > found->bytes || bytes > found->bytes - first)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: storage %.60s is missing or too short: the file is damaged",
                       file->path, storage->text);
    return read_exactly(file, out, bytes, found->offset + first, err);
}

/* -- Both ------------------------------------------------------------------------------------ */

static flatclip_status open_either(fc_torch_file *file, const char *path, flatclip_error *err)
{
    char head[2] = { 0 };
    file->path = strdup(path);
    if (!file->path)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", path);
    file->file = open(path, O_RDONLY | O_CLOEXEC);
    if (file->file < 0)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", path, strerror(errno));
    FC_TRY(read_exactly(file, head, sizeof head, 0, err));
    return memcmp(head, "PK", 2) ? open_legacy(file, err) : open_archive(file, err);
}

flatclip_status fc_torch_file_open(const char *path, fc_torch_file **file, flatclip_error *err)
{
    *file = NULL;
    fc_torch_file *built = calloc(1, sizeof *built);
    if (!built)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", path);
    built->file = -1;
    const flatclip_status status = open_either(built, path, err);
    if (status == FLATCLIP_OK)
        *file = built;
    else
        fc_torch_file_close(built);
    return status;
}

void fc_torch_file_close(fc_torch_file *file)
{
    if (!file)
        return;
    fc_pickle_close(file->pickle);
    fc_pickle_close(file->keys);
    fc_zip_close(file->zip);
    if (file->file >= 0)
        close(file->file);
    free(file->inflated_bytes);
    free(file->verified);
    free(file->folder);
    free(file->places);
    free(file->path);
    free(file);
}

const fc_pickle_value *fc_torch_file_root(const fc_torch_file *file)
{
    return fc_pickle_root(file->pickle);
}

const fc_zip *fc_torch_file_zip(const fc_torch_file *file)
{
    return file->zip;
}

const char *fc_torch_file_folder(const fc_torch_file *file)
{
    return file->folder;
}

flatclip_status fc_torch_file_check(fc_torch_file *file, const fc_pickle_value *storage,
                                    flatclip_error *err)
{
    const fc_zip_member *member;
    return file->zip ? find_storage(file, storage, &member, err) : FLATCLIP_OK;
}

flatclip_status fc_torch_file_read(fc_torch_file *file, const fc_pickle_value *storage,
                                   uint64_t first, size_t bytes, void *out, flatclip_error *err)
{
    const uint64_t whole = storage->elements * fc_dtype_bytes(storage->dtype);
    if (first > whole || bytes > whole - first)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "%.150s: storage %.60s has %" PRIu64 " bytes, cannot read %zu from %" PRIu64,
                       file->path, storage->text, whole, bytes, first);
    return file->zip ? read_from_archive(file, storage, first, bytes, out, err)
                     : read_from_legacy(file, storage, first, bytes, out, err);
}
