/* Reading .safetensors files: an untrusted format, so everything is checked when it is opened.
 *
 * A file is 8 bytes of header length (little-endian), a JSON header, then the tensors' bytes.
 * Opening parses and checks the header: length, JSON, duplicate keys, known dtypes, shapes whose
 * product and byte count fit, offsets inside the file, no overlap and no hole. Data is read later
 * with pread, so that a file that is cut meanwhile gives an error and not a signal. */
#ifndef FC_SAFETENSORS_H
#define FC_SAFETENSORS_H

#include "engine/base/error.h"

#define FC_MAX_RANK 8

typedef enum {
    FC_F32, FC_F16, FC_BF16, FC_F64, FC_I64, FC_I32, FC_I16, FC_I8, FC_U8, FC_BOOL
} fc_dtype;

size_t fc_dtype_bytes(fc_dtype dtype);
const char *fc_dtype_name(fc_dtype dtype);  /* as in the file: "BF16" */

/* Converts count values of a floating dtype (F32, F16, BF16, F64) to float32; in is aligned for it
 * and does not overlap out. */
void fc_dtype_to_floats(fc_dtype dtype, const void *in, size_t count, float *out);

typedef struct {
    const char *name;
    fc_dtype dtype;
    int rank;
    uint64_t dim[FC_MAX_RANK];
    uint64_t count;     /* elements: the product of dim */
    uint64_t offset;    /* of its first byte, from the start of the file */
    uint64_t bytes;
} fc_tensor;

typedef struct fc_safetensors fc_safetensors;

/* Opens and checks path. On success *file is the caller's until fc_safetensors_close.
 * Errors: IO, FORMAT (names the tensor), MEMORY. */
flatclip_status fc_safetensors_open(const char *path, fc_safetensors **file, flatclip_error *err);
void fc_safetensors_close(fc_safetensors *file); /* NULL is allowed */

/* The same checks on a header in memory (the JSON alone), for a file of file_bytes bytes; name
 * stands for the path in messages. The result has no data to read. For tests and fuzzing. */
flatclip_status fc_safetensors_parse(const char *name, const char *header, size_t header_bytes,
                                     uint64_t file_bytes, fc_safetensors **file,
                                     flatclip_error *err);

const char *fc_safetensors_path(const fc_safetensors *file);
size_t fc_safetensors_count(const fc_safetensors *file);
const fc_tensor *fc_safetensors_at(const fc_safetensors *file, size_t index); /* by offset */
const fc_tensor *fc_safetensors_find(const fc_safetensors *file, const char *name); /* or NULL */

/* The value of a key of __metadata__, or NULL. */
const char *fc_safetensors_metadata(const fc_safetensors *file, const char *key);

/* Reads count elements from element first on, converted to float32. dtype must be a floating type.
 * Does not allocate; works for any count. Several threads may read one file.
 * Errors: IO (names file and tensor), FORMAT for a dtype that is no floating type, ARGUMENT for a
 * range outside the tensor. */
flatclip_status fc_safetensors_read_f32(const fc_safetensors *file, const fc_tensor *tensor,
                                        uint64_t first, uint64_t count, float *out,
                                        flatclip_error *err);

/* The same of a tensor of type U8, as bytes. */
flatclip_status fc_safetensors_read_bytes(const fc_safetensors *file, const fc_tensor *tensor,
                                          uint64_t first, uint64_t count, void *out,
                                          flatclip_error *err);

#endif
