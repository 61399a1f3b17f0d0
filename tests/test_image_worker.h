/* A worker's scratch for the image tests: options in, one block, and helpers that run a picture. */
#ifndef TEST_IMAGE_WORKER_H
#define TEST_IMAGE_WORKER_H

#include "engine/image/preprocess.h"
#include "tests/golden.h"

enum { SIZE = 224, PIXEL_BYTES = SIZE * SIZE * 3 };

typedef struct {
    fc_preprocess_options options;
    fc_preprocess_scratch scratch;
    void *block;
    size_t block_bytes;
    uint8_t *out; /* [size, size, 3] */
    flatclip_error err;
} image_worker;

static inline fc_preprocess_options image_options(flatclip_recipe recipe)
{
    const fc_preprocess_options options = { SIZE, recipe, 0, FC_DEFAULT_MAX_PIXELS,
                                            FC_ISA_PORTABLE };
    return options;
}

static inline image_worker image_worker_open(fc_preprocess_options options)
{
    image_worker w = { .options = options };
    fc_arena arena = { .kind = FLATCLIP_REGION_WORKSPACE };
    fc_preprocess_layout(&w.scratch, &arena, &options);
    w.block_bytes = arena.used;
    w.block = fc_block_alloc(w.block_bytes);
    assert_non_null(w.block);
    arena = (fc_arena){ .base = w.block, .kind = FLATCLIP_REGION_WORKSPACE };
    fc_preprocess_layout(&w.scratch, &arena, &options);
    assert_int_equal(arena.used, w.block_bytes);
    w.out = malloc((size_t)options.size * (size_t)options.size * 3);
    assert_non_null(w.out);
    return w;
}

static inline void image_worker_close(image_worker *w)
{
    fc_block_free(w->block);
    free(w->out);
}

static inline flatclip_status image_file(image_worker *w, const char *path)
{
    fc_succeed(&w->err);
    return fc_preprocess_file(&w->options, &w->scratch, path, w->out, &w->err);
}

static inline flatclip_status image_bytes(image_worker *w, const void *data, size_t bytes)
{
    fc_succeed(&w->err);
    return fc_preprocess_bytes(&w->options, &w->scratch, data, bytes, w->out, &w->err);
}

/* Fails with the place of the first difference. */
static inline void expect_pixels(const char *what, const uint8_t *got, const uint8_t *expected)
{
    for (int i = 0; i < PIXEL_BYTES; i++)
        if (got[i] != expected[i])
            fail_msg("%s: row %d, column %d, band %d is %d, Pillow has %d", what, i / 3 / SIZE,
                     i / 3 % SIZE, i % 3, got[i], expected[i]);
}

/* Every instruction set that this machine has, in turn. */
#define FOR_EACH_ISA(isa)                                                     \
    for (fc_isa isa = FC_ISA_PORTABLE; isa <= FC_ISA_AVX512; isa++)           \
        if (fc_isa_supported(isa))

/* A small generator, the same everywhere: numbers from a seed. */
static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The seed of a random test: printed, and repeated with FLATCLIP_TEST_SEED. */
static inline uint64_t test_seed(void)
{
    const char *wanted = getenv("FLATCLIP_TEST_SEED");
    const uint64_t seed = wanted ? strtoull(wanted, NULL, 10) : 20260101;
    print_message("FLATCLIP_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

#endif
