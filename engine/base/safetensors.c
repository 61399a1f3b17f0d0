/* Opening .safetensors files and reading their tensors. safetensors_header.c checks the header. */
#define _GNU_SOURCE
#include "engine/base/safetensors_header.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/half.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are read as they lie in the file, which is little-endian"
#endif

enum { CHUNK_BYTES = 16 << 10 }; /* of the buffer through which 16-bit values pass */

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
    if (file_bytes < FC_LENGTH_BYTES)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s has %" PRIu64 " bytes: too short for a .safetensors file",
                       file->path, file_bytes);
    FC_TRY(read_exactly(file, "the header length", &header_bytes, FC_LENGTH_BYTES, 0, err));
    if (header_bytes > file_bytes - FC_LENGTH_BYTES || header_bytes > FC_HEADER_LIMIT)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: header length %" PRIu64 " is over %s (%" PRIu64
                       "): not a .safetensors file, or damaged", file->path, header_bytes,
                       header_bytes > FC_HEADER_LIMIT ? "the limit" : "the rest of the file",
                       header_bytes > FC_HEADER_LIMIT ? (uint64_t)FC_HEADER_LIMIT
                                                   : file_bytes - FC_LENGTH_BYTES);
    char *header = malloc(header_bytes ? header_bytes : 1);
    if (!header)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "%.150s: no memory for a header of %" PRIu64
                       " bytes", file->path, header_bytes);
    flatclip_status status = read_exactly(file, "the header", header, header_bytes,
                                          FC_LENGTH_BYTES, err);
    if (status == FLATCLIP_OK)
        status = fc_safetensors_take_header(file, header, header_bytes, file_bytes, err);
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
    const flatclip_status status = fc_safetensors_take_header(built, header, header_bytes,
                                                              file_bytes, err);
    return deliver(built, status, file);
}

void fc_safetensors_close(fc_safetensors *file)
{
    if (!file)
        return;
    if (file->file >= 0)
        close(file->file);
    cJSON_Delete(file->root);
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
    return cJSON_GetStringValue(fc_json_get(file->metadata, key));
}

/* -- Reading --------------------------------------------------------------------------------- */

void fc_dtype_to_floats(fc_dtype dtype, const void *in, size_t count, float *out)
{
    const double *wide = in;
    switch (dtype) {
    case FC_F32: memcpy(out, in, count * sizeof *out); break;
    case FC_F16: fc_halves_to_floats(in, count, out); break;
    case FC_BF16: fc_bf16s_to_floats(in, count, out); break;
    default: /* FC_F64: the caller has excluded all others */
        for (size_t i = 0; i < count; i++)
            out[i] = (float)wide[i];
    }
}

static flatclip_status check_range(const fc_safetensors *file, const fc_tensor *tensor,
                                   uint64_t first, uint64_t count, flatclip_error *err)
{
    if (first <= tensor->count && count <= tensor->count - first)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                   "%.150s: tensor %.60s has %" PRIu64 " elements, cannot read %" PRIu64
                   " from %" PRIu64, file->path, tensor->name, tensor->count, count, first);
}

static flatclip_status wrong_type(const fc_safetensors *file, const fc_tensor *tensor,
                                  const char *expected, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.150s: tensor %.80s is stored as %s, expected %s", file->path, tensor->name,
                   fc_dtype_name(tensor->dtype), expected);
}

flatclip_status fc_safetensors_read_f32(const fc_safetensors *file, const fc_tensor *tensor,
                                        uint64_t first, uint64_t count, float *out,
                                        flatclip_error *err)
{
    if (tensor->dtype > FC_F64)
        return wrong_type(file, tensor, "a floating type", err);
    FC_TRY(check_range(file, tensor, first, count, err));

    const size_t width = fc_dtype_bytes(tensor->dtype);
    uint64_t offset = tensor->offset + first * width;
    if (tensor->dtype == FC_F32)
        return read_exactly(file, tensor->name, out, count * width, offset, err);

    _Alignas(64) char chunk[CHUNK_BYTES];
    while (count) {
        const size_t now = count < CHUNK_BYTES / width ? (size_t)count : CHUNK_BYTES / width;
        FC_TRY(read_exactly(file, tensor->name, chunk, now * width, offset, err));
        fc_dtype_to_floats(tensor->dtype, chunk, now, out);
        out += now;
        offset += now * width;
        count -= now;
    }
    return FLATCLIP_OK;
}

flatclip_status fc_safetensors_read_bytes(const fc_safetensors *file, const fc_tensor *tensor,
                                          uint64_t first, uint64_t count, void *out,
                                          flatclip_error *err)
{
    if (tensor->dtype != FC_U8)
        return wrong_type(file, tensor, "U8", err);
    FC_TRY(check_range(file, tensor, first, count, err));
    return read_exactly(file, tensor->name, out, count, tensor->offset + first, err);
}
