/* Reads golden .safetensors files in tests: trusting, since they are ours, and independent of the
 * loader under test. Everything is static inline because a test is linked from one file. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

/* A whole file in memory; free(data) is the caller's. Fails the test if it cannot be read. */
typedef struct {
    unsigned char *data;
    size_t bytes;
} golden_bytes;

static inline golden_bytes golden_read(const char *path)
{
    golden_bytes file = { NULL, 0 };
    FILE *stream = fopen(path, "rb");
    if (!stream)
        fail_msg("cannot open %s: run the tests from the repository's root", path);
    fseek(stream, 0, SEEK_END);
    file.bytes = (size_t)ftell(stream);
    rewind(stream);
    file.data = malloc(file.bytes + 1);
    assert_non_null(file.data);
    assert_int_equal(fread(file.data, 1, file.bytes, stream), file.bytes);
    fclose(stream);
    return file;
}

typedef struct {
    golden_bytes file;
    cJSON *header;               /* name -> {dtype, shape, data_offsets} */
    const unsigned char *tensors;
} golden;

static inline golden golden_open(const char *path)
{
    golden g = { .file = golden_read(path) };
    uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | g.file.data[i];
    g.header = cJSON_ParseWithLength((const char *)g.file.data + 8, (size_t)header_bytes);
    assert_non_null(g.header);
    g.tensors = g.file.data + 8 + header_bytes;
    return g;
}

static inline void golden_close(golden *g)
{
    cJSON_Delete(g->header);
    free(g->file.data);
}

/* The data of tensor `name`, or NULL if there is none; dtype ("U8", "F32", ...) must be right.
 * bytes gets its size in bytes; it may be NULL. */
static inline const void *golden_tensor(const golden *g, const char *name, const char *dtype,
                                        size_t *bytes)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(g->header, name);
    if (!entry)
        return NULL;
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype")),
                        dtype);
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    const size_t begin = (size_t)cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, 0));
    const size_t end = (size_t)cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, 1));
    if (bytes)
        *bytes = end - begin;
    return g->tensors + begin;
}

#endif
