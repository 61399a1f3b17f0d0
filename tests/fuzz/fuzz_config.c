/* Fuzz target: any configuration file of a checkpoint.
 *
 * The first byte of the input chooses which file the rest is. What is accepted must be fit to be
 * compared with shapes and written into a model file. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "weights_tools/config_readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds)
{
    if (!holds)
        __builtin_trap();
}

static void check_promises(const fc_source_config *config)
{
    const fc_clip_config *said = &config->said;
    demand(said->image_size >= 0 && said->patch_size >= 0 && said->embed_dim >= 0);
    demand(said->vision.width >= 0 && said->vision.layers >= 0 && said->vision.heads >= 0);
    demand(said->text.width >= 0 && said->text.layers >= 0 && said->text.heads >= 0);
    demand(said->context_length >= 0 && said->vocab_size >= 0);
    demand(said->activation <= FLATCLIP_ACTIVATION_GELU && said->recipe <= FLATCLIP_RECIPE_HF);
    demand(memchr(config->activation_reason, 0, sizeof config->activation_reason) != NULL);
    demand(memchr(config->recipe_reason, 0, sizeof config->recipe_reason) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *name;
        void (*take)(fc_document *doc, fc_source_config *config);
    } kinds[] = {
        { "open_clip_config.json", fc_config_take_open_clip },
        { "config.json", fc_config_take_hf },
        { "preprocessor_config.json", fc_config_take_hf_pixels },
        { "processor_config.json", fc_config_take_hf_pixels },
    };
    fc_source_config config = { 0 };
    flatclip_error err;
    if (!size)
        return 0;
    const unsigned kind = data[0] % 4;
    fc_document doc = fc_doc_parse(kinds[kind].name, (const char *)data + 1, size - 1, &err);
    if (doc.root && doc.status == FLATCLIP_OK)
        kinds[kind].take(&doc, &config);
    if (fc_doc_close(&doc) == FLATCLIP_OK)
        check_promises(&config);
    else
        demand(err.status == FLATCLIP_ERR_FORMAT && err.message[0]);
    return 0;
}
