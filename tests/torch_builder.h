/* Builds what torch.save pickles, a dict of tensors, for tests that then spoil it. It shares no
 * code with the reader under test. */
#ifndef TORCH_BUILDER_H
#define TORCH_BUILDER_H

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    unsigned char data[4096];
    size_t bytes;
} pickle_builder;

static inline void pickle_put(pickle_builder *pickle, const void *data, size_t bytes)
{
    assert(bytes <= sizeof pickle->data - pickle->bytes);
    memcpy(pickle->data + pickle->bytes, data, bytes);
    pickle->bytes += bytes;
}
#define PICKLE_PUT(pickle, literal) pickle_put(pickle, literal, sizeof(literal) - 1)

/* A str of less than 256 bytes (BINUNICODE). */
static inline void pickle_text(pickle_builder *pickle, const char *text)
{
    const uint32_t length = (uint32_t)strlen(text);
    PICKLE_PUT(pickle, "X");
    pickle_put(pickle, &length, sizeof length);
    pickle_put(pickle, text, length);
}

/* An int of up to 8 bytes (LONG1). */
static inline void pickle_int(pickle_builder *pickle, int64_t value)
{
    PICKLE_PUT(pickle, "\x8a\x08");
    pickle_put(pickle, &value, sizeof value);
}

static inline void pickle_ints(pickle_builder *pickle, const int64_t *values, int count)
{
    PICKLE_PUT(pickle, "(");
    for (int i = 0; i < count; i++)
        pickle_int(pickle, values[i]);
    PICKLE_PUT(pickle, "t");
}

typedef struct {
    const char *type;           /* "FloatStorage" */
    const char *key;
    int64_t elements, offset;
    int rank;
    int64_t dim[4], stride[4];
} tensor_builder;

/* One entry of the dict: name, and the call that rebuilds the tensor. A legacy file's persistent
 * id has a sixth part. */
static inline void pickle_tensor(pickle_builder *pickle, const char *name, const tensor_builder *t,
                                 int legacy)
{
    pickle_text(pickle, name);
    PICKLE_PUT(pickle, "ctorch._utils\n_rebuild_tensor_v2\n((");
    pickle_text(pickle, "storage");
    PICKLE_PUT(pickle, "ctorch\n");
    pickle_put(pickle, t->type, strlen(t->type));
    PICKLE_PUT(pickle, "\n");
    pickle_text(pickle, t->key);
    pickle_text(pickle, "cpu");
    pickle_int(pickle, t->elements);
    if (legacy)
        PICKLE_PUT(pickle, "N");
    PICKLE_PUT(pickle, "tQ");
    pickle_int(pickle, t->offset);
    pickle_ints(pickle, t->dim, t->rank);
    pickle_ints(pickle, t->stride, t->rank);
    PICKLE_PUT(pickle, "\x89" "ccollections\nOrderedDict\n)RtR");
}

/* A whole pickle of one dict with count tensors. */
static inline void pickle_state(pickle_builder *pickle, const char *const *names,
                                const tensor_builder *tensors, int count, int legacy)
{
    PICKLE_PUT(pickle, "\x80\x02}(");
    for (int i = 0; i < count; i++)
        pickle_tensor(pickle, names[i], &tensors[i], legacy);
    PICKLE_PUT(pickle, "u.");
}

#endif
