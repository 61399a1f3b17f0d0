/* Reading the configuration files of public checkpoints.
 *
 * A key that is absent has the default of the library that wrote the file; a key that asks for
 * something that we do not do is refused by name, never passed over. */
#define _GNU_SOURCE
#include "weights_tools/source_config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"

enum { FILE_LIMIT = 1 << 20 }; /* bytes; real ones have a few thousand */

/* A JSON file and its first failure: later calls on it do nothing, so that a run of them needs
 * one check at its end. */
typedef struct {
    char *path;
    const char *name;           /* without folder */
    cJSON *root;                /* NULL where the file is absent */
    flatclip_status status;
    flatclip_error *err;
} document;

__attribute__((format(printf, 2, 3)))
static void refuse(document *doc, const char *format, ...)
{
    char what[180];
    va_list args;
    if (doc->status != FLATCLIP_OK)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    doc->status = fc_fail(doc->err, FLATCLIP_ERR_FORMAT, "%.110s: %s", doc->path, what);
}

static void parse(document *doc, FILE *file)
{
    char *text = malloc(FILE_LIMIT);
    if (!text) {
        doc->status = fc_fail(doc->err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s",
                              doc->path);
        return;
    }
    const size_t bytes = fread(text, 1, FILE_LIMIT, file);
    if (ferror(file))
        doc->status = fc_fail(doc->err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", doc->path,
                              strerror(errno));
    else if (bytes == FILE_LIMIT)
        refuse(doc, "is over %d bytes, too large for a configuration", FILE_LIMIT - 1);
    else
        doc->status = fc_json_parse(doc->path, text, bytes, FC_JSON_ANY_NUMBERS, &doc->root,
                                    doc->err);
    if (doc->root && !cJSON_IsObject(doc->root))
        refuse(doc, "is no JSON object");
    free(text);
}

/* Opens name in the folder of the file beside. An absent file is no failure. */
static document open_beside(const char *beside, const char *name, flatclip_error *err)
{
    document doc = { NULL, name, NULL, FLATCLIP_OK, err };
    const char *slash = strrchr(beside, '/');
    if (asprintf(&doc.path, "%.*s%s", slash ? (int)(slash + 1 - beside) : 0, beside, name) < 0) {
        doc.path = NULL;
        doc.status = fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", name);
        return doc;
    }
    FILE *file = fopen(doc.path, "rb");
    if (file) {
        parse(&doc, file);
        fclose(file);
    } else if (errno != ENOENT) {
        doc.status = fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", doc.path,
                             strerror(errno));
    }
    return doc;
}

static flatclip_status close_document(document *doc)
{
    cJSON_Delete(doc->root);
    free(doc->path);
    return doc->status;
}

/* -- Values ---------------------------------------------------------------------------------- */

/* The positive whole number that value is, or 0. */
static int positive_int(const cJSON *value)
{
    uint64_t number;
    return fc_json_whole(value, &number) && number <= INT_MAX ? (int)number : 0;
}

/* The positive whole number under key; 0 where it is absent or null. */
static int get_int(document *doc, const cJSON *object, const char *key)
{
    const cJSON *value = fc_json_get(object, key);
    if (!value || cJSON_IsNull(value))
        return 0;
    const int number = positive_int(value);
    if (!number)
        refuse(doc, "%s is not a positive whole number", key);
    return number;
}

/* A side under key, given as n, as [n, n] or as an object with equal sides. */
static int get_side(document *doc, const cJSON *object, const char *key)
{
    const cJSON *value = fc_json_get(object, key);
    int width, height;
    if (cJSON_IsArray(value)) {
        width = positive_int(cJSON_GetArrayItem(value, 0));
        height = cJSON_GetArraySize(value) == 2 ? positive_int(cJSON_GetArrayItem(value, 1)) : 0;
    } else if (cJSON_IsObject(value)) {
        width = get_int(doc, value, "width");
        height = get_int(doc, value, "height");
    } else {
        return get_int(doc, object, key);
    }
    if (!width || width != height)
        refuse(doc, "%s is not a square, and only square images are run", key);
    return width;
}

/* The string under key, or what stands for it if it is absent. */
static const char *get_text(const cJSON *object, const char *key, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(fc_json_get(object, key));
    return text ? text : otherwise;
}

static void get_triple(document *doc, const cJSON *object, const char *key, float triple[3])
{
    const cJSON *value = fc_json_get(object, key);
    if (!value || cJSON_IsNull(value))
        return;
    for (int i = 0; i < 3; i++) {
        const cJSON *number = cJSON_GetArrayItem(value, i);
        if (!cJSON_IsArray(value) || cJSON_GetArraySize(value) != 3 || !cJSON_IsNumber(number)) {
            refuse(doc, "%s is not a list of three numbers", key);
            return;
        }
        triple[i] = (float)number->valuedouble;
    }
}

/* Refuses a key whose presence with any but an empty, false, zero or null value changes the
 * model. */
static void refuse_if_set(document *doc, const cJSON *object, const char *key)
{
    const cJSON *value = fc_json_get(object, key);
    if (!value || cJSON_IsNull(value) || cJSON_IsFalse(value) ||
        (cJSON_IsNumber(value) && cJSON_GetNumberValue(value) == 0) ||
        (cJSON_IsObject(value) && !value->child))
        return;
    refuse(doc, "asks for %s, which is not supported", key);
}

static void refuse_unless(document *doc, const cJSON *object, const char *key,
                          const char *expected)
{
    const char *text = get_text(object, key, expected);
    if (strcmp(text, expected))
        refuse(doc, "has %s %.40s, only %s is supported", key, text, expected);
}

static void refuse_unless_true(document *doc, const cJSON *object, const char *key)
{
    const cJSON *value = fc_json_get(object, key);
    if (value && !cJSON_IsNull(value) && !cJSON_IsTrue(value))
        refuse(doc, "has %s false, only true is supported", key);
}

/* Returns heads, and refuses them where the width is told and is not 64 times as much. */
static int check_heads(document *doc, const char *tower, int width, int heads)
{
    if (width && heads && width != heads * FC_HEAD_DIM)
        refuse(doc, "the %s tower has %d heads for a width of %d; only heads of size %d are run",
               tower, heads, width, FC_HEAD_DIM);
    return heads;
}

/* -- open_clip ------------------------------------------------------------------------------- */

/* Changes of a block that leave the names and shapes of its tensors as they are, or nearly so. */
static void refuse_other_blocks(document *doc, const cJSON *tower)
{
    static const char *const unsupported[] = {
        "ls_init_value", "norm_kwargs", "act_kwargs", "block_type", "qk_norm",
        "scaled_cosine_attn", "scale_heads", "scale_attn_inner", "scale_attn", "scale_fc"
    };
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        refuse_if_set(doc, tower, unsupported[i]);
}

static void read_open_clip_vision(document *doc, const cJSON *vision, fc_clip_config *said)
{
    static const char *const unsupported[] = { "no_ln_pre", "final_ln_after_pool",
                                               "attentional_pool", "input_patchnorm" };
    if (cJSON_IsArray(fc_json_get(vision, "layers"))) {
        refuse(doc, "describes a ResNet image tower; only vision transformers are run");
        return;
    }
    if (fc_json_get(vision, "timm_model_name")) {
        refuse(doc, "describes the timm image tower %.60s, which is not supported",
               get_text(vision, "timm_model_name", "(null)"));
        return;
    }
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        refuse_if_set(doc, vision, unsupported[i]);
    refuse_other_blocks(doc, vision);
    refuse_unless(doc, vision, "pool_type", "tok");
    said->image_size = get_side(doc, vision, "image_size");
    said->patch_size = get_side(doc, vision, "patch_size");
    said->vision.width = get_int(doc, vision, "width");
    said->vision.layers = get_int(doc, vision, "layers");
    const int head_width = get_int(doc, vision, "head_width");
    if (head_width && head_width != FC_HEAD_DIM)
        refuse(doc, "the vision tower has heads of size %d; only heads of size %d are run",
               head_width, FC_HEAD_DIM);
    said->vision.heads = said->vision.width / FC_HEAD_DIM;
}

static void read_open_clip_text(document *doc, const cJSON *text, fc_clip_config *said)
{
    static const char *const unsupported[] = { "hf_model_name", "embed_cls", "no_causal_mask",
                                               "final_ln_after_pool" };
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        refuse_if_set(doc, text, unsupported[i]);
    refuse_other_blocks(doc, text);
    refuse_unless(doc, text, "pool_type", "argmax");
    refuse_unless(doc, text, "proj_type", "linear");
    said->context_length = get_int(doc, text, "context_length");
    said->vocab_size = get_int(doc, text, "vocab_size");
    said->text.width = get_int(doc, text, "width");
    said->text.layers = get_int(doc, text, "layers");
    const int heads = get_int(doc, text, "heads");
    said->text.heads = check_heads(doc, "text", said->text.width, heads ? heads : 8);
}

static void read_open_clip_pixels(document *doc, const cJSON *preprocess, fc_source_config *config)
{
    refuse_unless(doc, preprocess, "interpolation", "bicubic");
    refuse_unless(doc, preprocess, "resize_mode", "shortest");
    refuse_unless(doc, preprocess, "mode", "RGB");
    const int size = get_side(doc, preprocess, "size");
    if (size && config->said.image_size && size != config->said.image_size)
        refuse(doc, "preprocess_cfg has size %d, but the model image_size %d", size,
               config->said.image_size);
    get_triple(doc, preprocess, "mean", config->said.mean);
    get_triple(doc, preprocess, "std", config->said.std);
}

static flatclip_status read_open_clip(const char *path, fc_source_config *config,
                                      flatclip_error *err)
{
    document doc = open_beside(path, "open_clip_config.json", err);
    config->said.recipe = FLATCLIP_RECIPE_OPENAI;
    snprintf(config->recipe_reason, sizeof config->recipe_reason,
             "as OpenAI's and open_clip's own transform does");
    if (doc.root && doc.status == FLATCLIP_OK) {
        const cJSON *model = fc_json_get(doc.root, "model_cfg");
        const int quick = cJSON_IsTrue(fc_json_get(model, "quick_gelu"));
        if (!cJSON_IsObject(model))
            refuse(&doc, "has no model_cfg");
        snprintf(config->file, sizeof config->file, "%s", doc.name);
        config->said.activation = quick ? FLATCLIP_ACTIVATION_QUICKGELU : FLATCLIP_ACTIVATION_GELU;
        snprintf(config->activation_reason, sizeof config->activation_reason,
                 "%s has %s", doc.name,
                 quick ? "quick_gelu true" : "no quick_gelu, which means exact GELU");
        config->said.embed_dim = get_int(&doc, model, "embed_dim");
        read_open_clip_vision(&doc, fc_json_get(model, "vision_cfg"), &config->said);
        read_open_clip_text(&doc, fc_json_get(model, "text_cfg"), &config->said);
        read_open_clip_pixels(&doc, fc_json_get(doc.root, "preprocess_cfg"), config);
    }
    return close_document(&doc);
}

/* -- Hugging Face ---------------------------------------------------------------------------- */

/* The activation that a tower's section asks for; quick_gelu is the library's default. */
static flatclip_activation hf_activation(document *doc, const cJSON *section)
{
    const char *name = get_text(section, "hidden_act", "quick_gelu");
    if (!strcmp(name, "quick_gelu"))
        return FLATCLIP_ACTIVATION_QUICKGELU;
    if (strcmp(name, "gelu"))
        refuse(doc, "has hidden_act %.40s, only quick_gelu and gelu are supported", name);
    return FLATCLIP_ACTIVATION_GELU;
}

static void read_hf_tower(document *doc, const char *tower, const cJSON *section,
                          int default_heads, fc_tower_config *said)
{
    const cJSON *eps = fc_json_get(section, "layer_norm_eps");
    if (eps && !(fabs(cJSON_GetNumberValue(eps) - 1e-5) <= 1e-9)) /* NaN: it is no number */
        refuse(doc, "the %s tower has layer_norm_eps %g, only 1e-5 is supported", tower,
               cJSON_GetNumberValue(eps));
    said->width = get_int(doc, section, "hidden_size");
    said->layers = get_int(doc, section, "num_hidden_layers");
    const int heads = get_int(doc, section, "num_attention_heads");
    said->heads = check_heads(doc, tower, said->width, heads ? heads : default_heads);
}

/* Old files have two sections for each tower; the library lets the one called _dict win, with the
 * defaults of what it leaves out. */
static const cJSON *hf_section(const cJSON *root, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, "%s_dict", name);
    const cJSON *old = fc_json_get(root, key);
    return cJSON_IsObject(old) && old->child ? old : fc_json_get(root, name);
}

static void read_hf_model(document *doc, fc_source_config *config)
{
    const char *type = get_text(doc->root, "model_type", "clip");
    const int vision_only = !strcmp(type, "clip_vision_model");
    const cJSON *vision = vision_only ? doc->root : hf_section(doc->root, "vision_config");
    const cJSON *text = vision_only ? NULL : hf_section(doc->root, "text_config");
    if (strcmp(type, "clip") && !vision_only) {
        refuse(doc, "describes a model of type %.40s, only clip is supported", type);
        return;
    }
    if (!cJSON_IsObject(vision)) {
        refuse(doc, "has no vision_config: it is not the configuration of a CLIP model");
        return;
    }
    config->said.image_size = get_side(doc, vision, "image_size");
    config->said.patch_size = get_side(doc, vision, "patch_size");
    config->said.embed_dim = get_int(doc, doc->root, "projection_dim");
    read_hf_tower(doc, "vision", vision, 12, &config->said.vision);
    config->said.activation = hf_activation(doc, vision);
    snprintf(config->activation_reason, sizeof config->activation_reason, "%s has hidden_act %s",
             doc->name,
             config->said.activation == FLATCLIP_ACTIVATION_GELU ? "gelu" : "quick_gelu");
    const cJSON *plain = vision_only ? vision : fc_json_get(doc->root, "vision_config");
    if (hf_activation(doc, plain) != config->said.activation) {
        config->said.activation = (flatclip_activation)0;
        snprintf(config->activation_reason, sizeof config->activation_reason,
                 "%s contradicts itself: vision_config and vision_config_dict differ in "
                 "hidden_act", doc->name);
        return;
    }
    if (!text)
        return;
    read_hf_tower(doc, "text", text, 8, &config->said.text);
    config->said.context_length = get_int(doc, text, "max_position_embeddings");
    config->said.vocab_size = get_int(doc, text, "vocab_size");
    if (hf_activation(doc, text) != config->said.activation)
        refuse(doc, "gives its two towers different values of hidden_act");
}

/* size: n or {"shortest_edge": n}; {"height", "width"} would squash the picture. */
static void check_hf_size(document *doc, const char *key, int allow_box, int image_size)
{
    const cJSON *size = fc_json_get(doc->root, key);
    int side;
    if (cJSON_IsObject(size) && !allow_box) {
        side = get_int(doc, size, "shortest_edge");
        if (!side)
            refuse(doc, "%s has no shortest_edge: a resize that does not keep the proportions is "
                   "not supported", key);
    } else {
        side = get_side(doc, doc->root, key);
    }
    if (side && image_size && side != image_size)
        refuse(doc, "%s is %d, but the model's image_size is %d", key, side, image_size);
}

static void read_hf_pixels(document *doc, fc_source_config *config)
{
    static const char *const needed[] = { "do_resize", "do_center_crop", "do_rescale",
                                          "do_normalize" };
    const cJSON *resample = fc_json_get(doc->root, "resample");
    const cJSON *factor = fc_json_get(doc->root, "rescale_factor");
    const char *type = get_text(doc->root, "image_processor_type",
                                get_text(doc->root, "feature_extractor_type", "CLIP"));
    if (strncmp(type, "CLIP", 4))
        refuse(doc, "asks for a %.60s, only CLIP's image processor is supported", type);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        refuse_unless_true(doc, doc->root, needed[i]);
    if (resample && !cJSON_IsNull(resample) && cJSON_GetNumberValue(resample) != 3)
        refuse(doc, "has resample %g, only 3 (bicubic) is supported",
               cJSON_GetNumberValue(resample));
    if (factor && !(fabs(cJSON_GetNumberValue(factor) - 1 / 255.0) <= 1e-9))
        refuse(doc, "has rescale_factor %g, only 1/255 is supported", cJSON_GetNumberValue(factor));
    check_hf_size(doc, "size", 0, config->said.image_size);
    check_hf_size(doc, "crop_size", 1, config->said.image_size);
    get_triple(doc, doc->root, "image_mean", config->said.mean);
    get_triple(doc, doc->root, "image_std", config->said.std);
}

static flatclip_status read_hf(const char *path, fc_source_config *config, flatclip_error *err)
{
    document doc = open_beside(path, "config.json", err);
    if (doc.root && doc.status == FLATCLIP_OK) {
        read_hf_model(&doc, config);
        snprintf(config->file, sizeof config->file, "%s", doc.name);
    }
    FC_TRY(close_document(&doc));

    doc = open_beside(path, "preprocessor_config.json", err);
    config->said.recipe = doc.root ? FLATCLIP_RECIPE_HF : FLATCLIP_RECIPE_OPENAI;
    snprintf(config->recipe_reason, sizeof config->recipe_reason, "%s",
             doc.root ? "preprocessor_config.json asks for CLIP's image processor"
                      : "no preprocessor_config.json asks for another");
    if (doc.root && doc.status == FLATCLIP_OK)
        read_hf_pixels(&doc, config);
    return close_document(&doc);
}

flatclip_status fc_source_config_read(const char *path, fc_layout layout, fc_source_config *config,
                                      flatclip_error *err)
{
    memset(config, 0, sizeof *config);
    fc_clip_default_normalisation(&config->said);
    return layout == FC_LAYOUT_HF ? read_hf(path, config, err) : read_open_clip(path, config, err);
}
