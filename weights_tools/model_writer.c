/* Writing a model file as a stream.
 *
 * The header comes first in the file but holds the hash of what follows: it is written with a hash
 * of zeros, which is patched at the end. */
#define _GNU_SOURCE
#include "weights_tools/model_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/half.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"
#include "weights_tools/sha256.h"
#include "weights_tools/write_behind.h"

enum {
    BLOCK_VALUES = 64 << 10,     /* floats that are converted, hashed and written at a time */
    HEADER_ALIGN = 64,           /* bytes; so that float32 tensors lie aligned in the file */
    HASH_DIGITS = 64,
    NAME_TRIES = 100
};
static const double LARGEST_HALF = 65520; /* from here on a value rounds to infinity */

struct fc_model_writer {
    char *path;
    char *temporary;             /* name of the unfinished file, or NULL while it has none */
    int file;
    fc_clip_config config;
    fc_dtype *dtypes;            /* [tensor_count] */
    fc_merges merges;            /* the caller's; text NULL: the file has none */
    int tensor_count, tensor;    /* tensor: the one being written */
    fc_tensor_spec spec;         /* its shape */
    uint64_t written;            /* values of it so far */
    off_t hash_at;               /* of weights_sha256's first digit in the file */
    fc_sha256 *hash;
    fc_write_behind *behind;     /* writes the data; NULL before and after that */
    uint16_t stored[BLOCK_VALUES];
    float kept[BLOCK_VALUES];    /* what the stored values read as */
};

static flatclip_status fail_io(const fc_model_writer *writer, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %.200s: %s", writer->path, strerror(errno));
}

static flatclip_status write_fully(fc_model_writer *writer, const void *data, size_t bytes,
                                   flatclip_error *err)
{
    const char *at = data;
    while (bytes) {
        const ssize_t put = write(writer->file, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_io(writer, err);
        at += put;
        bytes -= (size_t)put;
    }
    return FLATCLIP_OK;
}

/* -- The header ------------------------------------------------------------------------------ */

/* The header's tree; failed is set once there is no memory for a part of it. */
typedef struct {
    cJSON *root, *metadata;
    int failed;
} header_tree;

static void put_metadata(void *user, const char *key, const char *value)
{
    header_tree *tree = user;
    char plain[sizeof((fc_clip_config *)0)->activation_from]; /* the longest */
    if (!strcmp(key, "weights_sha256"))
        value = "0000000000000000000000000000000000000000000000000000000000000000";
    const char *c = value;
    for (size_t bytes; *c && (bytes = fc_utf8_bytes(c, strlen(c))); c += bytes)
        ;
    if (*c) { /* JSON is UTF-8, but a file name in source may be anything */
        snprintf(plain, sizeof plain, "%s", value);
        for (char *p = plain; *p; p++)
            if ((unsigned char)*p >= 0x80)
                *p = '?';
        value = plain;
    }
    tree->failed |= !cJSON_AddStringToObject(tree->metadata, key, value);
}

static int add_number(cJSON *array, uint64_t number)
{
    cJSON *item = cJSON_CreateNumber((double)number);
    if (cJSON_AddItemToArray(array, item))
        return 1;
    cJSON_Delete(item);
    return 0;
}

/* Adds the entry of one tensor whose data begins at *offset, and moves *offset behind it. Returns
 * 0 without memory. */
static int add_tensor(cJSON *root, const fc_tensor_spec *spec, fc_dtype dtype, uint64_t *offset)
{
    cJSON *entry = cJSON_AddObjectToObject(root, spec->name);
    int done = cJSON_AddStringToObject(entry, "dtype", fc_dtype_name(dtype)) != NULL;
    cJSON *shape = cJSON_AddArrayToObject(entry, "shape");
    for (int d = 0; d < spec->rank; d++)
        done &= add_number(shape, spec->dim[d]);
    cJSON *offsets = cJSON_AddArrayToObject(entry, "data_offsets");
    done &= add_number(offsets, *offset);
    *offset += spec->count * fc_dtype_bytes(dtype);
    return done & add_number(offsets, *offset);
}

static void build_header(const fc_model_writer *writer, header_tree *tree)
{
    uint64_t offset = 0;
    tree->root = cJSON_CreateObject();
    tree->metadata = cJSON_AddObjectToObject(tree->root, "__metadata__");
    tree->failed = !tree->metadata;
    fc_clip_config_write(&writer->config, put_metadata, tree);
    for (int i = 0; i < writer->tensor_count; i++) {
        fc_tensor_spec spec;
        fc_clip_tensor_spec(&writer->config, i, &spec);
        tree->failed |= !add_tensor(tree->root, &spec, writer->dtypes[i], &offset);
    }
    if (writer->merges.text) {
        const fc_tensor_spec spec = { FC_MERGES_TENSOR, 1, { writer->merges.bytes },
                                      writer->merges.bytes };
        tree->failed |= !add_tensor(tree->root, &spec, FC_U8, &offset);
    }
}

static flatclip_status write_header_text(fc_model_writer *writer, const char *text,
                                         flatclip_error *err)
{
    static const char key[] = "\"weights_sha256\":\"";
    static const char spaces[HEADER_ALIGN + 1] =
        "                                                                ";
    const size_t length = strlen(text);
    const size_t padding = (HEADER_ALIGN - (8 + length) % HEADER_ALIGN) % HEADER_ALIGN;
    const uint64_t header_bytes = length + padding;

    /* In the text of another key the quotes would be escaped, so that only the key itself fits. */
    const char *found = strstr(text, key);
    if (!found)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the header of %.200s",
                       writer->path);
    writer->hash_at = (off_t)(8 + (found - text) + (ptrdiff_t)strlen(key));
    FC_TRY(write_fully(writer, &header_bytes, sizeof header_bytes, err));
    FC_TRY(write_fully(writer, text, length, err));
    return write_fully(writer, spaces, padding, err);
}

static flatclip_status write_header(fc_model_writer *writer, flatclip_error *err)
{
    header_tree tree;
    build_header(writer, &tree);
    char *text = tree.failed ? NULL : cJSON_PrintUnformatted(tree.root);
    cJSON_Delete(tree.root);
    const flatclip_status status =
        text ? write_header_text(writer, text, err)
             : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the header of %.200s",
                       writer->path);
    cJSON_free(text);
    return status;
}

/* -- Opening --------------------------------------------------------------------------------- */

/* Calls make(writer) with one temporary name beside the final one after the other, until it
 * succeeds or fails for another reason than that the name is taken. */
static flatclip_status with_temporary_name(fc_model_writer *writer, int (*make)(fc_model_writer *),
                                           flatclip_error *err)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        free(writer->temporary);
        if (asprintf(&writer->temporary, "%s.%ld.%d.tmp", writer->path, (long)getpid(), i) < 0) {
            writer->temporary = NULL;
            return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to write %.200s", writer->path);
        }
        if (make(writer))
            return FLATCLIP_OK;
        if (errno != EEXIST)
            break;
    }
    const flatclip_status status = fail_io(writer, err);
    free(writer->temporary); /* somebody else's, or nobody's */
    writer->temporary = NULL;
    return status;
}

static int create_named(fc_model_writer *writer)
{
    writer->file = open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return writer->file >= 0;
}

/* A file without a name in the folder of path vanishes by itself however the program ends. Returns
 * -1 where the file system, or the lack of /proc, does not allow it. */
static int open_nameless(const char *path)
{
#ifdef O_TMPFILE
    char *copy = access("/proc/self/fd", X_OK) == 0 ? strdup(path) : NULL;
    const int file = copy ? open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
    free(copy);
    return file;
#else
    (void)path;
    return -1;
#endif
}

static int link_nameless(fc_model_writer *writer)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", writer->file);
    return linkat(AT_FDCWD, self, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW) == 0;
}

/* Renaming would put a plain file in the place of a device. */
static flatclip_status check_place(const fc_model_writer *writer, flatclip_error *err)
{
    struct stat info;
    if (stat(writer->path, &info) != 0 || S_ISREG(info.st_mode))
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %.200s: it is %s; choose another name",
                   writer->path, S_ISDIR(info.st_mode) ? "a folder" : "no plain file");
}

static flatclip_status open_file(fc_model_writer *writer, flatclip_error *err)
{
    FC_TRY(check_place(writer, err));
    writer->file = open_nameless(writer->path);
    if (writer->file >= 0)
        return FLATCLIP_OK;
    return with_temporary_name(writer, create_named, err);
}

static flatclip_status start(fc_model_writer *writer, const char *path, const fc_dtype *dtypes,
                             flatclip_error *err)
{
    const size_t count = (size_t)writer->tensor_count;
    writer->path = strdup(path);
    writer->dtypes = calloc(count, sizeof *dtypes);
    FC_TRY(fc_sha256_open(&writer->hash, err));
    if (!writer->path || !writer->dtypes)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to write %.200s", path);
    memcpy(writer->dtypes, dtypes, count * sizeof *dtypes);
    for (size_t i = 0; i < count; i++)
        if (dtypes[i] > FC_BF16)
            return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                           "%.200s: models are stored as F32, F16 or BF16, not as %s", path,
                           fc_dtype_name(dtypes[i]));
    FC_TRY(open_file(writer, err));
    FC_TRY(write_header(writer, err));
    return fc_write_behind_open(writer->file, &writer->behind, err);
}

flatclip_status fc_model_writer_open(const char *path, const fc_clip_config *config,
                                     const fc_dtype *dtypes, const fc_merges *merges,
                                     fc_model_writer **writer, flatclip_error *err)
{
    *writer = NULL;
    fc_model_writer *built = calloc(1, sizeof *built);
    if (!built)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to write %.200s", path);
    built->file = -1;
    built->config = *config;
    if (merges)
        built->merges = *merges;
    built->tensor_count = fc_clip_tensor_count(config);
    fc_clip_tensor_spec(config, 0, &built->spec);
    const flatclip_status status = start(built, path, dtypes, err);
    if (status == FLATCLIP_OK)
        *writer = built;
    else
        fc_model_writer_abandon(built);
    return status;
}

/* -- Appending ------------------------------------------------------------------------------- */

static flatclip_status check_values(const fc_model_writer *writer, const float *values,
                                    size_t count, flatclip_error *err)
{
    const int half = writer->dtypes[writer->tensor] == FC_F16;
    const float limit = half ? (float)LARGEST_HALF : INFINITY;
    int good = 1;
    for (size_t i = 0; i < count; i++)
        good &= fabsf(values[i]) < limit; /* false for NaN too */
    if (good)
        return FLATCLIP_OK;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "tensor %s: element %" PRIu64 " is not a finite number",
                           writer->spec.name, writer->written + i);
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "tensor %s has values that F16 cannot hold (65504 at most): store it as BF16 "
                   "or F32", writer->spec.name);
}

/* At most BLOCK_VALUES of the present tensor. */
static flatclip_status append_block(fc_model_writer *writer, const float *values, size_t count,
                                    flatclip_error *err)
{
    const void *stored = writer->stored;
    const float *kept = writer->kept;
    const fc_dtype dtype = writer->dtypes[writer->tensor];
    FC_TRY(check_values(writer, values, count, err));
    if (dtype == FC_F16) {
        if (fc_floats_to_halves(values, count, writer->stored))
            kept = values;
        else
            fc_halves_to_floats(writer->stored, count, writer->kept);
    } else if (dtype == FC_BF16) {
        fc_floats_to_bf16s(values, count, writer->stored);
        fc_bf16s_to_floats(writer->stored, count, writer->kept);
    } else {
        stored = values;
        kept = values;
    }
    fc_sha256_add(writer->hash, kept, count * sizeof *kept);
    fc_write_behind_put(writer->behind, stored, count * fc_dtype_bytes(dtype));
    return FLATCLIP_OK;
}

flatclip_status fc_model_writer_append(fc_model_writer *writer, const float *values, size_t count,
                                       flatclip_error *err)
{
    if (count > writer->spec.count - writer->written || writer->tensor >= writer->tensor_count)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "more values than tensor %s has",
                       writer->spec.name);
    while (count) {
        const size_t now = count < BLOCK_VALUES ? count : BLOCK_VALUES;
        FC_TRY(append_block(writer, values, now, err));
        writer->written += now;
        values += now;
        count -= now;
    }
    if (writer->written == writer->spec.count && ++writer->tensor < writer->tensor_count) {
        fc_clip_tensor_spec(&writer->config, writer->tensor, &writer->spec);
        writer->written = 0;
    }
    return FLATCLIP_OK;
}

/* -- Ending ---------------------------------------------------------------------------------- */

static flatclip_status patch_hash(fc_model_writer *writer, char hex[HASH_DIGITS + 1],
                                  flatclip_error *err)
{
    fc_sha256_close(writer->hash, hex);
    writer->hash = NULL;
    if (lseek(writer->file, writer->hash_at, SEEK_SET) < 0)
        return fail_io(writer, err);
    return write_fully(writer, hex, HASH_DIGITS, err);
}

/* The rename itself is on the disk only when the folder is. Not every file system can do that;
 * the file is whole all the same. */
static void sync_folder(const char *path)
{
    char *copy = strdup(path);
    const int folder = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
    free(copy);
}

static flatclip_status finish(fc_model_writer *writer, char hex[HASH_DIGITS + 1],
                              flatclip_error *err)
{
    if (writer->tensor < writer->tensor_count)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "tensor %s is not complete",
                       writer->spec.name);
    fc_write_behind_put(writer->behind, writer->merges.text, writer->merges.bytes);
    errno = fc_write_behind_close(writer->behind);
    writer->behind = NULL;
    if (errno)
        return fail_io(writer, err);
    FC_TRY(patch_hash(writer, hex, err));
    if (fsync(writer->file))
        return fail_io(writer, err);
    if (!writer->temporary)
        FC_TRY(with_temporary_name(writer, link_nameless, err));
    const int closed = close(writer->file);
    writer->file = -1;
    if (closed || rename(writer->temporary, writer->path))
        return fail_io(writer, err);
    free(writer->temporary); /* it has another name now: abandon must not remove it */
    writer->temporary = NULL;
    sync_folder(writer->path);
    return FLATCLIP_OK;
}

flatclip_status fc_model_writer_commit(fc_model_writer *writer, char *sha256, flatclip_error *err)
{
    char hex[HASH_DIGITS + 1];
    const flatclip_status status = finish(writer, hex, err);
    if (status == FLATCLIP_OK && sha256)
        memcpy(sha256, hex, sizeof hex);
    fc_model_writer_abandon(writer);
    return status;
}

void fc_model_writer_abandon(fc_model_writer *writer)
{
    if (!writer)
        return;
    fc_write_behind_close(writer->behind);
    if (writer->file >= 0)
        close(writer->file);
    if (writer->temporary)
        unlink(writer->temporary);
    fc_sha256_close(writer->hash, NULL);
    free(writer->dtypes);
    free(writer->temporary);
    free(writer->path);
    free(writer);
}
