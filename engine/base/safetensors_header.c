/* Parsing and checking the header of a .safetensors file.
 *
 * The tree of its JSON is kept: names and metadata point into it. From it one table of tensors is
 * made, sorted by offset, in which each tensor must begin where the one before it ends. That single
 * rule excludes overlaps and holes alike. */
#include "engine/base/safetensors_header.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Every complaint about one tensor begins alike; its name is shortened so that the rest fits. */
__attribute__((format(printf, 4, 5)))
static flatclip_status fail_tensor(const fc_safetensors *file, const fc_tensor *tensor,
                                   flatclip_error *err, const char *format, ...)
{
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: tensor %.80s %s", file->path, tensor->name,
                   what);
}

static flatclip_status parse_dtype(const fc_safetensors *file, const cJSON *entry,
                                   fc_tensor *tensor, flatclip_error *err)
{
    const char *name = cJSON_GetStringValue(fc_json_get(entry, "dtype"));
    if (!name)
        return fail_tensor(file, tensor, err, "has no dtype");
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (!strcmp(name, DTYPES[dtype].name)) {
            tensor->dtype = (fc_dtype)dtype;
            return FLATCLIP_OK;
        }
    }
    return fail_tensor(file, tensor, err, "has dtype %.20s, which is not known here", name);
}

/* Fills rank, dim, count and bytes; every product is checked before it is made. */
static flatclip_status parse_shape(const fc_safetensors *file, const cJSON *entry,
                                   fc_tensor *tensor, flatclip_error *err)
{
    const cJSON *shape = fc_json_get(entry, "shape"), *dim;
    if (!cJSON_IsArray(shape))
        return fail_tensor(file, tensor, err, "has no shape");
    tensor->count = 1;
    cJSON_ArrayForEach(dim, shape) {
        const int i = tensor->rank++;
        if (i == FC_MAX_RANK)
            return fail_tensor(file, tensor, err, "has %d dimensions, at most %d are read",
                               cJSON_GetArraySize(shape), FC_MAX_RANK);
        if (!fc_json_whole(dim, &tensor->dim[i]))
            return fail_tensor(file, tensor, err,
                               "has a shape whose dimension %d is no whole number from 0 to below "
                               "2^53", i);
        if (__builtin_mul_overflow(tensor->count, tensor->dim[i], &tensor->count))
            return fail_tensor(file, tensor, err, "has a shape whose size overflows");
    }
    if (__builtin_mul_overflow(tensor->count, DTYPES[tensor->dtype].bytes, &tensor->bytes))
        return fail_tensor(file, tensor, err, "has a shape whose size in bytes overflows");
    return FLATCLIP_OK;
}

/* Fills offset, still counted from the start of the data, which is data_bytes long. */
static flatclip_status parse_offsets(const fc_safetensors *file, const cJSON *entry,
                                     uint64_t data_bytes, fc_tensor *tensor, flatclip_error *err)
{
    const cJSON *offsets = fc_json_get(entry, "data_offsets");
    const cJSON *first = cJSON_IsArray(offsets) ? offsets->child : NULL;
    const cJSON *last = first ? first->next : NULL;
    uint64_t begin, end;
    if (!last || last->next || !fc_json_whole(first, &begin) || !fc_json_whole(last, &end))
        return fail_tensor(file, tensor, err,
                           "has data_offsets that are not two whole numbers from 0 to below 2^53");
    if (end < begin)
        return fail_tensor(file, tensor, err,
                           "has data_offsets [%" PRIu64 ", %" PRIu64 "], which run backwards",
                           begin, end);
    if (end > data_bytes)
        return fail_tensor(file, tensor, err,
                           "ends at byte %" PRIu64 " of the data, but the file has only %" PRIu64
                           " there: it is cut or damaged", end, data_bytes);
    if (end - begin != tensor->bytes)
        return fail_tensor(file, tensor, err,
                           "takes %" PRIu64 " bytes, but its shape and dtype need %" PRIu64,
                           end - begin, tensor->bytes);
    tensor->offset = begin;
    return FLATCLIP_OK;
}

static flatclip_status take_metadata(fc_safetensors *file, const cJSON *metadata,
                                     flatclip_error *err)
{
    const cJSON *value;
    if (!cJSON_IsObject(metadata))
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: __metadata__ is not an object",
                       file->path);
    cJSON_ArrayForEach(value, metadata) {
        if (!cJSON_IsString(value))
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.150s: __metadata__ key %.80s is not a string", file->path,
                           value->string);
    }
    file->metadata = metadata;
    return FLATCLIP_OK;
}

static flatclip_status parse_entries(fc_safetensors *file, uint64_t data_bytes,
                                     flatclip_error *err)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, file->root) {
        if (!strcmp(entry->string, "__metadata__")) {
            FC_TRY(take_metadata(file, entry, err));
            continue;
        }
        fc_tensor *tensor = &file->tensors[file->count];
        tensor->name = entry->string;
        if (!cJSON_IsObject(entry))
            return fail_tensor(file, tensor, err, "is described by something that is no object");
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
            return fail_tensor(file, tensor, err, "overlaps tensor %.60s",
                               file->tensors[i - 1].name);
        if (tensor->offset > expected)
            return fail_tensor(file, tensor, err,
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

flatclip_status fc_safetensors_take_header(fc_safetensors *file, const char *header,
                                           size_t header_bytes, uint64_t file_bytes,
                                           flatclip_error *err)
{
    if (header_bytes > FC_HEADER_LIMIT || file_bytes < FC_LENGTH_BYTES ||
        header_bytes > file_bytes - FC_LENGTH_BYTES)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: header of %zu bytes does not fit in a file of %" PRIu64,
                       file->path, header_bytes, file_bytes);
    if (!header_bytes || header[0] != '{')
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: header does not begin with '{': not a .safetensors file",
                       file->path);
    FC_TRY(fc_json_parse(file->path, header, header_bytes, FC_JSON_WHOLE_NUMBERS, &file->root,
                         err));

    const size_t entries = (size_t)cJSON_GetArraySize(file->root);
    file->tensors = calloc(entries + 1, sizeof *file->tensors);
    file->by_name = calloc(entries + 1, sizeof *file->by_name);
    if (!file->tensors || !file->by_name)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "%.150s: no memory for %zu tensors", file->path,
                       entries);

    const uint64_t data_start = FC_LENGTH_BYTES + header_bytes;
    FC_TRY(parse_entries(file, file_bytes - data_start, err));
    FC_TRY(check_layout(file, data_start, file_bytes - data_start, err));
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->tensors[i];
    if (file->count)
        qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    return FLATCLIP_OK;
}
