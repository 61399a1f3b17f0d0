/* Reading .safetensors files.
 *
 * The header is parsed by jansson and its tree is kept: names and metadata point into it. From it
 * one table of tensors is made, sorted by offset, in which each tensor must begin where the one
 * before it ends. That single rule excludes overlaps and holes alike. */
#define _GNU_SOURCE
#include "engine/base/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/half.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are read as they lie in the file, which is little-endian"
#endif

enum {
    LENGTH_BYTES = 8,                    /* of the header length before the header */
    HEADER_LIMIT = 100 * 1000 * 1000,    /* bytes; the limit of the format's own library */
    CHUNK_BYTES = 16 << 10               /* of the buffer through which 16-bit values pass */
};

struct fc_safetensors {
    char *path;
    int file;                   /* descriptor, or -1 for a header without data */
    json_t *root;               /* owns the strings that tensors and metadata point to */
    size_t count;
    fc_tensor *tensors;         /* [count], by offset */
    const fc_tensor **by_name;  /* [count], by strcmp */
};

static const struct {
    const char *name;
    size_t bytes;
} DTYPES[] = {
    [FC_F32] = { "F32", 4 }, [FC_F16] = { "F16", 2 }, [FC_BF16] = { "BF16", 2 },
    [FC_F64] = { "F64", 8 }, [FC_I64] = { "I64", 8 }, [FC_I32] = { "I32", 4 },
    [FC_I16] = { "I16", 2 }, [FC_I8] = { "I8", 1 },   [FC_U8] = { "U8", 1 },
    [FC_BOOL] = { "BOOL", 1 },
};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

size_t fc_dtype_bytes(fc_dtype dtype)
{
    return DTYPES[dtype].bytes;
}

const char *fc_dtype_name(fc_dtype dtype)
{
    return DTYPES[dtype].name;
}

/* -- The header ------------------------------------------------------------------------------ */

/* Every complaint about one tensor begins alike; its name is shortened so that the rest fits. */
#define FAIL_TENSOR(file, tensor, err, ...) \
    fail_tensor(file, (tensor)->name, err, __VA_ARGS__)

__attribute__((format(printf, 4, 5)))
static flatclip_status fail_tensor(const fc_safetensors *file, const char *name,
                                   flatclip_error *err, const char *format, ...)
{
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: tensor %.80s %s", file->path, name, what);
}

static flatclip_status parse_dtype(const fc_safetensors *file, const json_t *entry,
                                   fc_tensor *tensor, flatclip_error *err)
{
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (!name)
        return FAIL_TENSOR(file, tensor, err, "has no dtype");
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (!strcmp(name, DTYPES[dtype].name)) {
            tensor->dtype = (fc_dtype)dtype;
            return FLATCLIP_OK;
        }
    }
    return FAIL_TENSOR(file, tensor, err, "has dtype %.20s, which is not known here", name);
}

/* Fills rank, dim, count and bytes; every product is checked before it is made. */
static flatclip_status parse_shape(const fc_safetensors *file, const json_t *entry,
                                   fc_tensor *tensor, flatclip_error *err)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return FAIL_TENSOR(file, tensor, err, "has no shape");
    if (json_array_size(shape) > FC_MAX_RANK)
        return FAIL_TENSOR(file, tensor, err, "has %zu dimensions, at most %d are read",
                           json_array_size(shape), FC_MAX_RANK);
    tensor->rank = (int)json_array_size(shape);
    tensor->count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return FAIL_TENSOR(file, tensor, err,
                               "has a shape whose dimension %d is no whole number from 0 up", i);
        tensor->dim[i] = (uint64_t)json_integer_value(dim);
        if (__builtin_mul_overflow(tensor->count, tensor->dim[i], &tensor->count))
            return FAIL_TENSOR(file, tensor, err, "has a shape whose size overflows");
    }
    if (__builtin_mul_overflow(tensor->count, DTYPES[tensor->dtype].bytes, &tensor->bytes))
        return FAIL_TENSOR(file, tensor, err, "has a shape whose size in bytes overflows");
    return FLATCLIP_OK;
}

/* Fills offset, still counted from the start of the data, which is data_bytes long. */
static flatclip_status parse_offsets(const fc_safetensors *file, const json_t *entry,
                                     uint64_t data_bytes, fc_tensor *tensor, flatclip_error *err)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return FAIL_TENSOR(file, tensor, err, "has data_offsets that are not two whole numbers");

    const json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin)
        return FAIL_TENSOR(file, tensor, err, "has data_offsets [%lld, %lld], which run backwards",
                           (long long)begin, (long long)end);
    if ((uint64_t)end > data_bytes)
        return FAIL_TENSOR(file, tensor, err,
                           "ends at byte %lld of the data, but the file has only %" PRIu64
                           " there: it is cut or damaged", (long long)end, data_bytes);
    if ((uint64_t)(end - begin) != tensor->bytes)
        return FAIL_TENSOR(file, tensor, err,
                           "takes %lld bytes, but its shape and dtype need %" PRIu64,
                           (long long)(end - begin), tensor->bytes);
    tensor->offset = (uint64_t)begin;
    return FLATCLIP_OK;
}

static flatclip_status check_metadata(const fc_safetensors *file, json_t *metadata,
                                      flatclip_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: __metadata__ is not an object",
                       file->path);
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.150s: __metadata__ key %.80s is not a string", file->path, key);
    }
    return FLATCLIP_OK;
}

static flatclip_status parse_entries(fc_safetensors *file, uint64_t data_bytes,
                                     flatclip_error *err)
{
    const char *key;
    json_t *entry;
    json_object_foreach(file->root, key, entry) {
        if (!strcmp(key, "__metadata__")) {
            FC_TRY(check_metadata(file, entry, err));
            continue;
        }
        fc_tensor *tensor = &file->tensors[file->count];
        tensor->name = key;
        if (!json_is_object(entry))
            return FAIL_TENSOR(file, tensor, err, "is described by something that is no object");
        FC_TRY(parse_dtype(file, entry, tensor, err));
        FC_TRY(parse_shape(file, entry, tensor, err));
        FC_TRY(parse_offsets(file, entry, data_bytes, tensor, err));
        file->count++;
    }
    return FLATCLIP_OK;
}

static int compare_offsets(const void *left, const void *right)
{
    const fc_tensor *a = left, *b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* empty ones before what follows them */
}

static int compare_names(const void *left, const void *right)
{
    const fc_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Sorts by offset and demands that tensors cover the data without overlap or hole; then makes
 * offsets count from the start of the file. */
static flatclip_status check_layout(fc_safetensors *file, uint64_t data_start, uint64_t data_bytes,
                                    flatclip_error *err)
{
    uint64_t expected = 0;
    if (file->count)
        qsort(file->tensors, file->count, sizeof *file->tensors, compare_offsets);
    for (size_t i = 0; i < file->count; i++) {
        fc_tensor *tensor = &file->tensors[i];
        if (tensor->offset < expected)
            return FAIL_TENSOR(file, tensor, err, "overlaps tensor %.60s",
                               file->tensors[i - 1].name);
        if (tensor->offset > expected)
            return FAIL_TENSOR(file, tensor, err,
                               "begins at byte %" PRIu64 " of the data, expected %" PRIu64
                               ": there is a hole before it", tensor->offset, expected);
        expected += tensor->bytes;
        tensor->offset += data_start;
    }
    if (expected != data_bytes)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: %" PRIu64 " bytes follow the last tensor, expected none",
                       file->path, data_bytes - expected);
    return FLATCLIP_OK;
}

static flatclip_status parse_header(fc_safetensors *file, const char *header, size_t header_bytes,
                                    uint64_t file_bytes, flatclip_error *err)
{
    json_error_t json_error;
    if (header_bytes > HEADER_LIMIT || file_bytes < LENGTH_BYTES ||
        header_bytes > file_bytes - LENGTH_BYTES)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: header of %zu bytes does not fit in a file of %" PRIu64,
                       file->path, header_bytes, file_bytes);
    if (!header_bytes || header[0] != '{')
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: header does not begin with '{': not a .safetensors file",
                       file->path);
    file->root = json_loadb(header, header_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (!file->root)
        return fc_fail(err,
                       json_error_code(&json_error) == json_error_out_of_memory
                           ? FLATCLIP_ERR_MEMORY : FLATCLIP_ERR_FORMAT,
                       "%.150s: header is no valid JSON at byte %d: %.100s", file->path,
                       json_error.position, json_error.text);

    const size_t entries = json_object_size(file->root);
    file->tensors = calloc(entries + 1, sizeof *file->tensors);
    file->by_name = calloc(entries + 1, sizeof *file->by_name);
    if (!file->tensors || !file->by_name)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "%.150s: no memory for %zu tensors", file->path,
                       entries);

    const uint64_t data_start = LENGTH_BYTES + header_bytes;
    FC_TRY(parse_entries(file, file_bytes - data_start, err));
    FC_TRY(check_layout(file, data_start, file_bytes - data_start, err));
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->tensors[i];
    if (file->count)
        qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    return FLATCLIP_OK;
}

/* -- Opening and closing --------------------------------------------------------------------- */

/* Reads exactly bytes bytes at offset; what names them in messages. */
static flatclip_status read_exactly(const fc_safetensors *file, const char *what, void *out,
                                    uint64_t bytes, uint64_t offset, flatclip_error *err)
{
    char *to = out;
    while (bytes) {
        const ssize_t got = pread(file->file, to, bytes < 1u << 30 ? bytes : 1u << 30,
                                  (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.80s of %.150s: %s", what,
                           file->path, strerror(errno));
        if (got == 0)
            return fc_fail(err, FLATCLIP_ERR_IO,
                           "%.150s ends inside %.80s: it was cut while in use", file->path, what);
        to += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return FLATCLIP_OK;
}

static flatclip_status open_file(fc_safetensors *file, uint64_t *file_bytes, flatclip_error *err)
{
    struct stat info;
    /* Without O_NONBLOCK a named pipe would wait here for a writer. */
    file->file = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->file < 0 || fstat(file->file, &info))
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", file->path,
                       strerror(errno));
    if (S_ISDIR(info.st_mode))
        return fc_fail(err, FLATCLIP_ERR_IO, "%.200s is a folder, expected a .safetensors file",
                       file->path);
    if (!S_ISREG(info.st_mode))
        return fc_fail(err, FLATCLIP_ERR_IO, "%.200s is not a regular file", file->path);
    *file_bytes = (uint64_t)info.st_size;
    return FLATCLIP_OK;
}

static flatclip_status load_header(fc_safetensors *file, flatclip_error *err)
{
    uint64_t file_bytes = 0, header_bytes = 0;
    FC_TRY(open_file(file, &file_bytes, err));
    if (file_bytes < LENGTH_BYTES)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s has %" PRIu64 " bytes: too short for a .safetensors file",
                       file->path, file_bytes);
    FC_TRY(read_exactly(file, "the header length", &header_bytes, LENGTH_BYTES, 0, err));
    if (header_bytes > file_bytes - LENGTH_BYTES || header_bytes > HEADER_LIMIT)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: header length %" PRIu64 " is over %s (%" PRIu64
                       "): not a .safetensors file, or damaged", file->path, header_bytes,
                       header_bytes > HEADER_LIMIT ? "the limit" : "the rest of the file",
                       header_bytes > HEADER_LIMIT ? (uint64_t)HEADER_LIMIT
                                                   : file_bytes - LENGTH_BYTES);
    char *header = malloc(header_bytes ? header_bytes : 1);
    if (!header)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "%.150s: no memory for a header of %" PRIu64
                       " bytes", file->path, header_bytes);
    flatclip_status status = read_exactly(file, "the header", header, header_bytes, LENGTH_BYTES,
                                          err);
    if (status == FLATCLIP_OK)
        status = parse_header(file, header, header_bytes, file_bytes, err);
    free(header);
    return status;
}

static fc_safetensors *new_file(const char *path, flatclip_error *err)
{
    fc_safetensors *file = calloc(1, sizeof *file);
    if (file) {
        file->file = -1;
        file->path = strdup(path);
    }
    if (!file || !file->path) {
        fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", path);
        free(file);
        return NULL;
    }
    return file;
}

/* Hands a finished file to the caller, or closes a broken one. */
static flatclip_status deliver(fc_safetensors *built, flatclip_status status,
                               fc_safetensors **file)
{
    if (status == FLATCLIP_OK)
        *file = built;
    else
        fc_safetensors_close(built);
    return status;
}

flatclip_status fc_safetensors_open(const char *path, fc_safetensors **file, flatclip_error *err)
{
    *file = NULL;
    fc_safetensors *built = new_file(path, err);
    return built ? deliver(built, load_header(built, err), file) : FLATCLIP_ERR_MEMORY;
}

flatclip_status fc_safetensors_parse(const char *name, const char *header, size_t header_bytes,
                                     uint64_t file_bytes, fc_safetensors **file,
                                     flatclip_error *err)
{
    *file = NULL;
    fc_safetensors *built = new_file(name, err);
    if (!built)
        return FLATCLIP_ERR_MEMORY;
    return deliver(built, parse_header(built, header, header_bytes, file_bytes, err), file);
}

void fc_safetensors_close(fc_safetensors *file)
{
    if (!file)
        return;
    if (file->file >= 0)
        close(file->file);
    json_decref(file->root);
    free(file->tensors);
    free(file->by_name);
    free(file->path);
    free(file);
}

/* -- Asking ---------------------------------------------------------------------------------- */

const char *fc_safetensors_path(const fc_safetensors *file)
{
    return file->path;
}

size_t fc_safetensors_count(const fc_safetensors *file)
{
    return file->count;
}

const fc_tensor *fc_safetensors_at(const fc_safetensors *file, size_t index)
{
    return &file->tensors[index];
}

static int compare_name_with_tensor(const void *name, const void *tensor)
{
    return strcmp(name, (*(const fc_tensor *const *)tensor)->name);
}

const fc_tensor *fc_safetensors_find(const fc_safetensors *file, const char *name)
{
    const fc_tensor **found = bsearch(name, file->by_name, file->count, sizeof *file->by_name,
                                      compare_name_with_tensor);
    return found ? *found : NULL;
}

const char *fc_safetensors_metadata(const fc_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->root, "__metadata__"), key));
}

/* -- Reading --------------------------------------------------------------------------------- */

static void convert(fc_dtype dtype, const void *in, size_t count, float *out)
{
    const double *wide = in;
    switch (dtype) {
    case FC_F16: fc_halves_to_floats(in, count, out); break;
    case FC_BF16: fc_bf16s_to_floats(in, count, out); break;
    default: /* FC_F64: the caller has excluded all others */
        for (size_t i = 0; i < count; i++)
            out[i] = (float)wide[i];
    }
}

flatclip_status fc_safetensors_read_f32(const fc_safetensors *file, const fc_tensor *tensor,
                                        uint64_t first, uint64_t count, float *out,
                                        flatclip_error *err)
{
    if (tensor->dtype > FC_F64)
        return FAIL_TENSOR(file, tensor, err, "is stored as %s, expected a floating type",
                           fc_dtype_name(tensor->dtype));
    if (first > tensor->count || count > tensor->count - first)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "%.150s: tensor %.60s has %" PRIu64 " elements, cannot read %" PRIu64
                       " from %" PRIu64, file->path, tensor->name, tensor->count, count, first);

    const size_t width = fc_dtype_bytes(tensor->dtype);
    uint64_t offset = tensor->offset + first * width;
    if (tensor->dtype == FC_F32)
        return read_exactly(file, tensor->name, out, count * width, offset, err);

    _Alignas(64) char chunk[CHUNK_BYTES];
    while (count) {
        const size_t now = count < CHUNK_BYTES / width ? (size_t)count : CHUNK_BYTES / width;
        FC_TRY(read_exactly(file, tensor->name, chunk, now * width, offset, err));
        convert(tensor->dtype, chunk, now, out);
        out += now;
        offset += now * width;
        count -= now;
    }
    return FLATCLIP_OK;
}
