/* open_clip_config.json: a key that is absent has open_clip's default. */
#include "weights_tools/config_readers.h"

#include <stdio.h>

/* Changes of a block that leave the names and shapes of its tensors as they are, or nearly so. */
static void refuse_other_blocks(fc_document *doc, const cJSON *tower)
{
    static const char *const unsupported[] = {
        "ls_init_value", "norm_kwargs", "act_kwargs", "block_type", "qk_norm",
        "scaled_cosine_attn", "scale_heads", "scale_attn_inner", "scale_attn", "scale_fc"
    };
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        fc_doc_refuse_if_set(doc, tower, unsupported[i]);
}

static void read_vision(fc_document *doc, const cJSON *vision, fc_clip_config *said)
{
    static const char *const unsupported[] = { "no_ln_pre", "final_ln_after_pool",
                                               "attentional_pool", "input_patchnorm" };
    if (cJSON_IsArray(fc_json_get(vision, "layers"))) {
        fc_doc_refuse(doc, "describes a ResNet image tower; only vision transformers are run");
        return;
    }
    if (fc_json_get(vision, "timm_model_name")) {
        fc_doc_refuse(doc, "describes the timm image tower %.60s, which is not supported",
                      fc_doc_text(vision, "timm_model_name", "(null)"));
        return;
    }
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        fc_doc_refuse_if_set(doc, vision, unsupported[i]);
    refuse_other_blocks(doc, vision);
    fc_doc_refuse_unless(doc, vision, "pool_type", "tok");
    said->image_size = fc_doc_side(doc, vision, "image_size");
    said->patch_size = fc_doc_side(doc, vision, "patch_size");
    said->vision.width = fc_doc_int(doc, vision, "width");
    said->vision.layers = fc_doc_int(doc, vision, "layers");
    const int head_width = fc_doc_int(doc, vision, "head_width");
    if (head_width && head_width != FC_HEAD_DIM)
        fc_doc_refuse(doc, "the vision tower has heads of size %d; only heads of size %d are run",
                      head_width, FC_HEAD_DIM);
    said->vision.heads = said->vision.width / FC_HEAD_DIM;
}

static void read_text(fc_document *doc, const cJSON *text, fc_clip_config *said)
{
    static const char *const unsupported[] = { "hf_model_name", "embed_cls", "no_causal_mask",
                                               "final_ln_after_pool" };
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        fc_doc_refuse_if_set(doc, text, unsupported[i]);
    refuse_other_blocks(doc, text);
    fc_doc_refuse_unless(doc, text, "pool_type", "argmax");
    fc_doc_refuse_unless(doc, text, "proj_type", "linear");
    said->context_length = fc_doc_int(doc, text, "context_length");
    said->vocab_size = fc_doc_int(doc, text, "vocab_size");
    said->text.width = fc_doc_int(doc, text, "width");
    said->text.layers = fc_doc_int(doc, text, "layers");
    const int heads = fc_doc_int(doc, text, "heads");
    said->text.heads = fc_doc_heads(doc, "text", said->text.width, heads ? heads : 8);
}

static void read_pixels(fc_document *doc, const cJSON *preprocess, fc_source_config *config)
{
    fc_doc_refuse_unless(doc, preprocess, "interpolation", "bicubic");
    fc_doc_refuse_unless(doc, preprocess, "resize_mode", "shortest");
    fc_doc_refuse_unless(doc, preprocess, "mode", "RGB");
    const int size = fc_doc_side(doc, preprocess, "size");
    if (size && config->said.image_size && size != config->said.image_size)
        fc_doc_refuse(doc, "preprocess_cfg has size %d, but the model image_size %d", size,
               config->said.image_size);
    fc_doc_triple(doc, preprocess, "mean", config->said.mean);
    fc_doc_triple(doc, preprocess, "std", config->said.std);
}

void fc_config_take_open_clip(fc_document *doc, fc_source_config *config)
{
    const cJSON *model = fc_json_get(doc->root, "model_cfg");
    const int quick = cJSON_IsTrue(fc_json_get(model, "quick_gelu"));
    if (!cJSON_IsObject(model))
        fc_doc_refuse(doc, "has no model_cfg");
    snprintf(config->file, sizeof config->file, "%s", doc->name);
    config->said.activation = quick ? FLATCLIP_ACTIVATION_QUICKGELU : FLATCLIP_ACTIVATION_GELU;
    snprintf(config->activation_reason, sizeof config->activation_reason, "%s has %s", doc->name,
             quick ? "quick_gelu true" : "no quick_gelu, which means exact GELU");
    config->said.embed_dim = fc_doc_int(doc, model, "embed_dim");
    read_vision(doc, fc_json_get(model, "vision_cfg"), &config->said);
    read_text(doc, fc_json_get(model, "text_cfg"), &config->said);
    read_pixels(doc, fc_json_get(doc->root, "preprocess_cfg"), config);
}
