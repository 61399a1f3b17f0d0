/* Feeds arbitrary bytes to the decoders, under both recipes, with rotation, and a pixel limit small
 * enough to keep each run short. The scratch is laid out in one block of its exact size, so that
 * the sanitizer sees an overrun of its end. */
#include "engine/image/preprocess.h"

#include <stdlib.h>

enum { SIDE = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void run(flatclip_recipe recipe, fc_isa isa, const uint8_t *data, size_t bytes)
{
    const fc_preprocess_options options = { SIDE, recipe, 1, 250000, isa };
    fc_preprocess_scratch scratch;
    fc_arena arena = { .kind = FLATCLIP_REGION_WORKSPACE };
    uint8_t out[SIDE * SIDE * 3];
    flatclip_error err;

    fc_preprocess_layout(&scratch, &arena, &options);
    void *block = fc_block_alloc(arena.used);
    if (!block)
        return;
    arena = (fc_arena){ .base = block, .kind = FLATCLIP_REGION_WORKSPACE };
    fc_preprocess_layout(&scratch, &arena, &options);
    fc_preprocess_bytes(&options, &scratch, data, bytes, out, &err);
    fc_block_free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const fc_isa fast = fc_isa_supported(FC_ISA_AVX2) ? FC_ISA_AVX2 : FC_ISA_PORTABLE;
    run(FLATCLIP_RECIPE_OPENAI, fast, data, bytes);
    run(FLATCLIP_RECIPE_HF, FC_ISA_PORTABLE, data, bytes);
    return 0;
}
