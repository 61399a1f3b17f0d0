/* One CLIP model's dimensions, its metadata keys, and its list of tensors.
 *
 * Both lists are tables here, and nowhere else: KEYS says how a configuration is written in a
 * file, the three tables of tensors say what a model consists of, in the order of the file. */
#define _GNU_SOURCE
#include "engine/base/clip_config.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds far beyond any public model; within them no product of dimensions overflows 64 bits. */
enum {
    MAX_IMAGE_SIZE = 4096,
    MAX_TOKENS = 256 * 256 + 1,
    MAX_WIDTH = 8192,
    MAX_LAYERS = 256,
    MAX_CONTEXT = 4096,
    MAX_VOCAB = 1 << 24
};

int fc_clip_tokens(const fc_clip_config *config)
{
    const int grid = config->image_size / config->patch_size;
    return grid * grid + 1;
}

const char *fc_activation_word(flatclip_activation activation)
{
    return activation == FLATCLIP_ACTIVATION_GELU ? "gelu" : "quickgelu";
}

const char *fc_recipe_word(flatclip_recipe recipe)
{
    return recipe == FLATCLIP_RECIPE_HF ? "hf" : "openai";
}

void fc_clip_default_normalisation(fc_clip_config *config)
{
    static const float mean[3] = { 0.48145466f, 0.4578275f, 0.40821073f };
    static const float std[3] = { 0.26862954f, 0.26130258f, 0.27577711f };
    memcpy(config->mean, mean, sizeof mean);
    memcpy(config->std, std, sizeof std);
}

/* -- Checking -------------------------------------------------------------------------------- */

static flatclip_status check_range(const char *path, const char *key, int value, int low, int high,
                                   flatclip_error *err)
{
    if (value >= low && value <= high)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: %s is %d, expected %d to %d", path, key,
                   value, low, high);
}

static flatclip_status check_tower(const char *path, const char *tower, const fc_tower_config *t,
                                   flatclip_error *err)
{
    char key[32];
    snprintf(key, sizeof key, "%s_width", tower);
    FC_TRY(check_range(path, key, t->width, FC_HEAD_DIM, MAX_WIDTH, err));
    snprintf(key, sizeof key, "%s_layers", tower);
    FC_TRY(check_range(path, key, t->layers, 1, MAX_LAYERS, err));
    if (t->width % FC_HEAD_DIM || t->heads != t->width / FC_HEAD_DIM)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: %s tower of width %d has %d heads; only heads of size %d are run",
                       path, tower, t->width, t->heads, FC_HEAD_DIM);
    return FLATCLIP_OK;
}

static flatclip_status check_normalisation(const char *path, const fc_clip_config *config,
                                           flatclip_error *err)
{
    for (int i = 0; i < 3; i++) {
        if (!isfinite(config->mean[i]))
            return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: mean[%d] is not finite", path, i);
        if (!isfinite(config->std[i]) || config->std[i] <= 0)
            return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: std[%d] is not a positive number",
                           path, i);
    }
    return FLATCLIP_OK;
}

flatclip_status fc_clip_config_check(const fc_clip_config *config, const char *path,
                                     flatclip_error *err)
{
    FC_TRY(check_range(path, "image_size", config->image_size, 1, MAX_IMAGE_SIZE, err));
    FC_TRY(check_range(path, "patch_size", config->patch_size, 1, config->image_size, err));
    if (config->image_size % config->patch_size)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: image_size %d is not a multiple of patch_size %d", path,
                       config->image_size, config->patch_size);
    FC_TRY(check_range(path, "the number of tokens", fc_clip_tokens(config), 2, MAX_TOKENS, err));
    FC_TRY(check_range(path, "embed_dim", config->embed_dim, 1, MAX_WIDTH, err));
    FC_TRY(check_tower(path, "vision", &config->vision, err));
    if (config->text.layers) {
        FC_TRY(check_tower(path, "text", &config->text, err));
        FC_TRY(check_range(path, "context_length", config->context_length, 1, MAX_CONTEXT, err));
        FC_TRY(check_range(path, "vocab_size", config->vocab_size, 1, MAX_VOCAB, err));
    }
    return check_normalisation(path, config, err);
}

/* -- Metadata -------------------------------------------------------------------------------- */

/* Whole numbers, in the order in which they are written. The text tower's come last and are left
 * out, all of them, where there is none. */
static const struct {
    const char *key;
    size_t at;
} NUMBERS[] = {
    { "image_size", offsetof(fc_clip_config, image_size) },
    { "patch_size", offsetof(fc_clip_config, patch_size) },
    { "embed_dim", offsetof(fc_clip_config, embed_dim) },
    { "vision_width", offsetof(fc_clip_config, vision.width) },
    { "vision_layers", offsetof(fc_clip_config, vision.layers) },
    { "vision_heads", offsetof(fc_clip_config, vision.heads) },
    { "text_width", offsetof(fc_clip_config, text.width) },
    { "text_layers", offsetof(fc_clip_config, text.layers) },
    { "text_heads", offsetof(fc_clip_config, text.heads) },
    { "context_length", offsetof(fc_clip_config, context_length) },
    { "vocab_size", offsetof(fc_clip_config, vocab_size) },
};
enum { NUMBER_COUNT = sizeof NUMBERS / sizeof *NUMBERS, VISION_NUMBERS = 6 };

static flatclip_status missing_key(const fc_safetensors *file, const char *key, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: metadata key %s is missing",
                   fc_safetensors_path(file), key);
}

static flatclip_status wrong_value(const fc_safetensors *file, const char *key,
                                   const char *expected, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: metadata key %s is \"%.40s\", expected %s",
                   fc_safetensors_path(file), key, fc_safetensors_metadata(file, key), expected);
}

static flatclip_status read_number(const fc_safetensors *file, const char *key, int *number,
                                   flatclip_error *err)
{
    const char *text = fc_safetensors_metadata(file, key);
    if (!text)
        return missing_key(file, key, err);
    const size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 9 || text[digits])
        return wrong_value(file, key, "a whole number", err);
    *number = (int)strtol(text, NULL, 10);
    return FLATCLIP_OK;
}

/* Finds the value among count words; *choice is its index. */
static flatclip_status read_word(const fc_safetensors *file, const char *key,
                                 const char *const *words, int count, const char *expected,
                                 int *choice, flatclip_error *err)
{
    const char *text = fc_safetensors_metadata(file, key);
    if (!text)
        return missing_key(file, key, err);
    for (int i = 0; i < count; i++) {
        if (!strcmp(text, words[i])) {
            *choice = i;
            return FLATCLIP_OK;
        }
    }
    return wrong_value(file, key, expected, err);
}

static flatclip_status read_words(const fc_safetensors *file, fc_clip_config *config,
                                  flatclip_error *err)
{
    static const char *const activations[] = { "quickgelu", "gelu" };
    static const char *const recipes[] = { "openai", "hf" };
    int choice = 0;
    FC_TRY(read_word(file, "activation", activations, 2, "quickgelu or gelu", &choice, err));
    config->activation = choice ? FLATCLIP_ACTIVATION_GELU : FLATCLIP_ACTIVATION_QUICKGELU;
    FC_TRY(read_word(file, "recipe", recipes, 2, "openai or hf", &choice, err));
    config->recipe = choice ? FLATCLIP_RECIPE_HF : FLATCLIP_RECIPE_OPENAI;
    return FLATCLIP_OK;
}

/* Three decimals with one space between, as fc_clip_config_write writes them. */
static int parse_triple(const char *text, float triple[3])
{
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        char *end;
        if (i && *at++ != ' ')
            return 0;
        if (!strchr("+-.0123456789", *at) || !*at)
            return 0;
        triple[i] = strtof(at, &end);
        if (end == at)
            return 0;
        at = end;
    }
    return !*at;
}

/* The host program's locale may write 0,5. A thread can step out of it without touching others. */
static locale_t enter_c_locale(locale_t *c_locale)
{
    *c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    return *c_locale ? uselocale(*c_locale) : (locale_t)0;
}

static void leave_c_locale(locale_t previous, locale_t c_locale)
{
    if (!c_locale)
        return;
    uselocale(previous);
    freelocale(c_locale);
}

static flatclip_status read_triple(const fc_safetensors *file, const char *key, float triple[3],
                                   flatclip_error *err)
{
    const char *text = fc_safetensors_metadata(file, key);
    if (!text)
        return missing_key(file, key, err);
    locale_t c_locale;
    const locale_t previous = enter_c_locale(&c_locale);
    const int good = parse_triple(text, triple);
    leave_c_locale(previous, c_locale);
    return good ? FLATCLIP_OK
                : wrong_value(file, key, "three decimals with one space between", err);
}

/* Copies the value of an optional key. */
static flatclip_status read_text(const fc_safetensors *file, const char *key, char *out,
                                 size_t capacity, flatclip_error *err)
{
    const char *text = fc_safetensors_metadata(file, key);
    const size_t length = text ? strlen(text) : 0;
    if (length >= capacity)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: metadata key %s has %zu bytes, at most %zu are expected",
                       fc_safetensors_path(file), key, length, capacity - 1);
    memcpy(out, text ? text : "", length + 1);
    return FLATCLIP_OK;
}

static flatclip_status read_sha256(const fc_safetensors *file, const char *key, char out[65],
                                   flatclip_error *err)
{
    FC_TRY(read_text(file, key, out, 65, err));
    if (out[0] && (strlen(out) != 64 || strspn(out, "0123456789abcdef") != 64))
        return wrong_value(file, key, "64 lower-case hexadecimal digits", err);
    return FLATCLIP_OK;
}

static flatclip_status check_format(const fc_safetensors *file, flatclip_error *err)
{
    const char *path = fc_safetensors_path(file);
    const char *format = fc_safetensors_metadata(file, "format");
    const char *version = fc_safetensors_metadata(file, "format_version");
    if (!format || strcmp(format, "flatclip"))
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.120s is a .safetensors file, but not a flatclip model: its metadata "
                       "holds no configuration. Run: flatclip convert SOURCE -o MODEL", path);
    if (!version || strcmp(version, FC_FORMAT_VERSION))
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: format_version is %.20s, this version of flatclip reads %s: "
                       "update flatclip or convert again", path, version ? version : "missing",
                       FC_FORMAT_VERSION);
    return FLATCLIP_OK;
}

flatclip_status fc_clip_config_read(const fc_safetensors *file, fc_clip_config *config,
                                    flatclip_error *err)
{
    memset(config, 0, sizeof *config);
    FC_TRY(check_format(file, err));
    const int has_text = fc_safetensors_metadata(file, "text_layers") != NULL;
    for (int i = 0; i < (has_text ? NUMBER_COUNT : VISION_NUMBERS); i++)
        FC_TRY(read_number(file, NUMBERS[i].key, (int *)((char *)config + NUMBERS[i].at), err));
    FC_TRY(read_words(file, config, err));
    FC_TRY(read_triple(file, "mean", config->mean, err));
    FC_TRY(read_triple(file, "std", config->std, err));
    FC_TRY(read_text(file, "activation_from", config->activation_from,
                     sizeof config->activation_from, err));
    FC_TRY(read_text(file, "source", config->source, sizeof config->source, err));
    FC_TRY(read_sha256(file, "source_sha256", config->source_sha256, err));
    FC_TRY(read_sha256(file, "weights_sha256", config->weights_sha256, err));
    return fc_clip_config_check(config, fc_safetensors_path(file), err);
}

/* Nine significant digits tell any two floats apart; fewer, where they do too, read better. */
static void format_triple(const float triple[3], char out[64])
{
    size_t used = 0;
    locale_t c_locale;
    const locale_t previous = enter_c_locale(&c_locale);
    for (int i = 0; i < 3; i++) {
        char number[20];
        int digits = 1;
        do
            snprintf(number, sizeof number, "%.*g", digits, (double)triple[i]);
        while (strtof(number, NULL) != triple[i] && ++digits <= 9);
        used += (size_t)snprintf(out + used, 64 - used, "%s%s", i ? " " : "", number);
    }
    leave_c_locale(previous, c_locale);
}

void fc_clip_config_write(const fc_clip_config *config, fc_metadata_fn *put, void *user)
{
    char text[64];
    put(user, "format", "flatclip");
    put(user, "format_version", FC_FORMAT_VERSION);
    for (int i = 0; i < (config->text.layers ? NUMBER_COUNT : VISION_NUMBERS); i++) {
        int number;
        memcpy(&number, (const char *)config + NUMBERS[i].at, sizeof number);
        snprintf(text, sizeof text, "%d", number);
        put(user, NUMBERS[i].key, text);
    }
    put(user, "activation", fc_activation_word(config->activation));
    if (config->activation_from[0])
        put(user, "activation_from", config->activation_from);
    put(user, "recipe", fc_recipe_word(config->recipe));
    format_triple(config->mean, text);
    put(user, "mean", text);
    format_triple(config->std, text);
    put(user, "std", text);
    put(user, "source", config->source);
    put(user, "source_sha256", config->source_sha256);
    put(user, "weights_sha256", config->weights_sha256);
}
