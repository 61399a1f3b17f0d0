/* config.json and preprocessor_config.json of Hugging Face transformers: a key that is absent has
 * the library's default. */
#include "weights_tools/config_readers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The activation that a tower's section asks for; quick_gelu is the library's default. */
static flatclip_activation activation_of(fc_document *doc, const cJSON *section)
{
    const char *name = fc_doc_text(section, "hidden_act", "quick_gelu");
    if (!strcmp(name, "quick_gelu"))
        return FLATCLIP_ACTIVATION_QUICKGELU;
    if (strcmp(name, "gelu"))
        fc_doc_refuse(doc, "has hidden_act %.40s, only quick_gelu and gelu are supported", name);
    return FLATCLIP_ACTIVATION_GELU;
}

static void read_tower(fc_document *doc, const char *tower, const cJSON *section,
                       int default_heads, fc_tower_config *said)
{
    const cJSON *eps = fc_json_get(section, "layer_norm_eps");
    if (eps && !(fabs(cJSON_GetNumberValue(eps) - 1e-5) <= 1e-9)) /* NaN: it is no number */
        fc_doc_refuse(doc, "the %s tower has layer_norm_eps %g, only 1e-5 is supported", tower,
               cJSON_GetNumberValue(eps));
    said->width = fc_doc_int(doc, section, "hidden_size");
    said->layers = fc_doc_int(doc, section, "num_hidden_layers");
    const int heads = fc_doc_int(doc, section, "num_attention_heads");
    said->heads = fc_doc_heads(doc, tower, said->width, heads ? heads : default_heads);
}

/* Old files have two sections for each tower; the library lets the one called _dict win, with the
 * defaults of what it leaves out. */
static const cJSON *section_of(const cJSON *root, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, "%s_dict", name);
    const cJSON *old = fc_json_get(root, key);
    return cJSON_IsObject(old) && old->child ? old : fc_json_get(root, name);
}

void fc_config_take_hf(fc_document *doc, fc_source_config *config)
{
    const char *type = fc_doc_text(doc->root, "model_type", "clip");
    const int vision_only = !strcmp(type, "clip_vision_model");
    const cJSON *vision = vision_only ? doc->root : section_of(doc->root, "vision_config");
    const cJSON *text = vision_only ? NULL : section_of(doc->root, "text_config");
    if (strcmp(type, "clip") && !vision_only) {
        fc_doc_refuse(doc, "describes a model of type %.40s, only clip is supported", type);
        return;
    }
    if (!cJSON_IsObject(vision)) {
        fc_doc_refuse(doc, "has no vision_config: it is not the configuration of a CLIP model");
        return;
    }
    snprintf(config->file, sizeof config->file, "%s", doc->name);
    config->said.image_size = fc_doc_side(doc, vision, "image_size");
    config->said.patch_size = fc_doc_side(doc, vision, "patch_size");
    config->said.embed_dim = fc_doc_int(doc, doc->root, "projection_dim");
    read_tower(doc, "vision", vision, 12, &config->said.vision);
    config->said.activation = activation_of(doc, vision);
    snprintf(config->activation_reason, sizeof config->activation_reason, "%s has hidden_act %s",
             doc->name,
             config->said.activation == FLATCLIP_ACTIVATION_GELU ? "gelu" : "quick_gelu");
    const cJSON *plain = vision_only ? vision : fc_json_get(doc->root, "vision_config");
    if (activation_of(doc, plain) != config->said.activation) {
        config->said.activation = (flatclip_activation)0;
        snprintf(config->activation_reason, sizeof config->activation_reason,
                 "%s contradicts itself: vision_config and vision_config_dict differ in "
                 "hidden_act", doc->name);
        return;
    }
    if (!text)
        return;
    read_tower(doc, "text", text, 8, &config->said.text);
    config->said.context_length = fc_doc_int(doc, text, "max_position_embeddings");
    config->said.vocab_size = fc_doc_int(doc, text, "vocab_size");
    if (activation_of(doc, text) != config->said.activation)
        fc_doc_refuse(doc, "gives its two towers different values of hidden_act");
}

/* size: n or {"shortest_edge": n}; {"height", "width"} would squash the picture. */
static void check_size(fc_document *doc, const cJSON *processor, const char *key, int allow_box,
                       int image_size)
{
    const cJSON *size = fc_json_get(processor, key);
    int side;
    if (cJSON_IsObject(size) && !allow_box) {
        side = fc_doc_int(doc, size, "shortest_edge");
        if (!side)
            fc_doc_refuse(doc, "%s has no shortest_edge: a resize that does not keep the "
                          "proportions is not supported", key);
    } else {
        side = fc_doc_side(doc, processor, key);
    }
    if (side && image_size && side != image_size)
        fc_doc_refuse(doc, "%s is %d, but the model's image_size is %d", key, side, image_size);
}

static void check_processor(fc_document *doc, const cJSON *processor)
{
    static const char *const needed[] = { "do_resize", "do_center_crop", "do_rescale",
                                          "do_normalize" };
    const cJSON *resample = fc_json_get(processor, "resample");
    const cJSON *factor = fc_json_get(processor, "rescale_factor");
    const char *type = fc_doc_text(processor, "image_processor_type",
                                   fc_doc_text(processor, "feature_extractor_type", "CLIP"));
    if (strncmp(type, "CLIP", 4))
        fc_doc_refuse(doc, "asks for a %.60s, only CLIP's image processor is supported", type);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        fc_doc_refuse_unless_true(doc, processor, needed[i]);
    if (resample && !cJSON_IsNull(resample) && cJSON_GetNumberValue(resample) != 3)
        fc_doc_refuse(doc, "has resample %g, only 3 (bicubic) is supported",
                      cJSON_GetNumberValue(resample));
    if (factor && !(fabs(cJSON_GetNumberValue(factor) - 1 / 255.0) <= 1e-9))
        fc_doc_refuse(doc, "has rescale_factor %g, only 1/255 is supported",
                      cJSON_GetNumberValue(factor));
}

void fc_config_take_hf_pixels(fc_document *doc, fc_source_config *config)
{
    const int is_newer = !strcmp(doc->name, "processor_config.json");
    const cJSON *processor = is_newer ? fc_json_get(doc->root, "image_processor") : doc->root;
    if (!cJSON_IsObject(processor)) /* older files of that name speak of other things */
        return;
    check_processor(doc, processor);
    check_size(doc, processor, "size", 0, config->said.image_size);
    check_size(doc, processor, "crop_size", 1, config->said.image_size);
    fc_doc_triple(doc, processor, "image_mean", config->said.mean);
    fc_doc_triple(doc, processor, "image_std", config->said.std);
    config->said.recipe = FLATCLIP_RECIPE_HF;
    snprintf(config->recipe_reason, sizeof config->recipe_reason,
             "%s asks for CLIP's image processor", doc->name);
}
