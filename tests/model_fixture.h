/* What the tests of the whole library share: models, sessions, golden numbers, random pixels.
 * Failing to get one of them fails the test that asked. */
#ifndef FC_TEST_MODEL_FIXTURE_H
#define FC_TEST_MODEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/base/cpu_features.h"
#include "engine/base/safetensors.h"
#include "flatclip.h"

#define MODELS "build/models/"
#define GOOD_IMAGES "tests/data/images/good/"

/* Fails the test with the library's own message. */
static inline void must(flatclip_status status, const flatclip_error *err)
{
    if (status != FLATCLIP_OK)
        fail_msg("%s: %s", flatclip_status_name(status), err->message);
}

/* Path of a synthetic model, valid until the next call; `make test` writes them. */
static inline const char *model_path(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, MODELS "%s.safetensors", name);
    return path;
}

/* Whether a model is to be tested: QUICK=1 leaves out the full-size one, and says so. */
static inline int have_model(const char *name)
{
    const char *quick = getenv("QUICK");
    const int wanted = !(quick && *quick && strcmp(name, "vitb32") == 0);
    if (!wanted)
        printf("note: QUICK=1, the full-size model is not tested here\n");
    return wanted;
}

/* Loads a model for one instruction set, or for the best one if isa is NULL. */
static inline flatclip_model *load_path(const char *path, const char *isa)
{
    flatclip_model *model = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    if (isa)
        setenv("FLATCLIP_CPU", isa, 1);
    const flatclip_status status = flatclip_model_load(path, NULL, &model, &err);
    if (isa)
        unsetenv("FLATCLIP_CPU");
    must(status, &err);
    return model;
}

static inline flatclip_model *load_model(const char *name, const char *isa)
{
    return load_path(model_path(name), isa);
}

static inline flatclip_session *open_session(const flatclip_model *model, int max_batch,
                                             int threads)
{
    flatclip_session *session = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = max_batch;
    options.threads = threads;
    must(flatclip_session_create(model, &options, &session, &err), &err);
    return session;
}

/* Names of the instruction sets that this machine can run, NULL at the end. */
static inline const char *const *usable_isas(void)
{
    static const char *names[4];
    int count = 0;
    for (int isa = FC_ISA_PORTABLE; isa <= FC_ISA_AVX512; isa++)
        if (fc_isa_supported((fc_isa)isa))
            names[count++] = fc_isa_name((fc_isa)isa);
    names[count] = NULL;
    return names;
}

/* All bytes of a file; the caller frees them. */
static inline void *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: cannot be opened", path);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*bytes ? *bytes : 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

/* A float tensor [rows, columns] of tests/data; the caller frees it. */
static inline float *golden_rows(const char *file_name, const char *tensor_name, size_t *rows,
                                 size_t *columns)
{
    char path[256];
    flatclip_error err = { FLATCLIP_OK, "" };
    fc_safetensors *file = NULL;
    snprintf(path, sizeof path, "tests/data/%s.safetensors", file_name);
    must(fc_safetensors_open(path, &file, &err), &err);
    const fc_tensor *tensor = fc_safetensors_find(file, tensor_name);
    assert_non_null(tensor);
    float *values = malloc(tensor->count * sizeof *values);
    assert_non_null(values);
    must(fc_safetensors_read_f32(file, tensor, 0, tensor->count, values, &err), &err);
    *rows = tensor->dim[0];
    *columns = tensor->dim[1];
    fc_safetensors_close(file);
    return values;
}

/* The good pictures of images.txt, in the row order of the goldens. */
typedef struct {
    size_t count;
    const char *paths[64];
    const char *names[64]; /* the paths' last parts: the keys of golden pixels */
    char storage[64][128];
} fixture_images;

static inline void list_images(fixture_images *images)
{
    char name[64];
    FILE *list = fopen("tests/data/images.txt", "r");
    assert_non_null(list);
    images->count = 0;
    while (images->count < 64 && fscanf(list, "%63s", name) == 1) {
        const size_t i = images->count++;
        snprintf(images->storage[i], sizeof images->storage[i], GOOD_IMAGES "%s", name);
        images->paths[i] = images->storage[i];
        images->names[i] = images->storage[i] + strlen(GOOD_IMAGES);
    }
    fclose(list);
    assert_int_equal(images->count, 35);
}

/* The golden uint8 pixels [count, size, size, 3] of the named pictures; the caller frees them. */
static inline uint8_t *golden_pixels(const char *file_name, const char *const *names, size_t count,
                                     int size)
{
    char path[256];
    size_t file_bytes;
    flatclip_error err = { FLATCLIP_OK, "" };
    fc_safetensors *file = NULL;
    const size_t picture = (size_t)size * (size_t)size * 3;
    snprintf(path, sizeof path, "tests/data/%s.safetensors", file_name);
    must(fc_safetensors_open(path, &file, &err), &err);
    char *data = read_whole(path, &file_bytes);
    uint8_t *pixels = malloc(count * picture);
    assert_non_null(pixels);
    for (size_t i = 0; i < count; i++) {
        const fc_tensor *tensor = fc_safetensors_find(file, names[i]);
        assert_non_null(tensor);
        assert_int_equal(tensor->bytes, picture);
        memcpy(pixels + i * picture, data + tensor->offset, picture);
    }
    free(data);
    fc_safetensors_close(file);
    return pixels;
}

/* xorshift64*: the same numbers everywhere from one seed. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

/* Random uint8 pixels, with slow waves under the noise so that pictures differ; the caller frees.
 */
static inline uint8_t *random_pixels(size_t bytes, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    uint8_t *pixels = malloc(bytes);
    assert_non_null(pixels);
    unsigned level = 128;
    for (size_t i = 0; i < bytes; i++) {
        const uint64_t r = next_random(&state) >> 32;
        if (i % 4096 == 0)
            level = (unsigned)(r % 192);
        pixels[i] = (uint8_t)(level + r % 64);
    }
    return pixels;
}

#endif
