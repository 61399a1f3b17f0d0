/* clip_config.c and clip_tensors.c: metadata round trips, and nothing else than the model that the
 * metadata describes is accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clip_config.h"
#include "tests/header_entry.h"

/* A small model with a text tower, all of whose dimensions differ. */
static fc_clip_config small_config(void)
{
    fc_clip_config config = { .image_size = 96, .patch_size = 16, .embed_dim = 40 };
    config.vision = (fc_tower_config){ 128, 3, 2 };
    config.text = (fc_tower_config){ 64, 2, 1 };
    config.context_length = 9;
    config.vocab_size = 50;
    config.activation = FLATCLIP_ACTIVATION_GELU;
    config.recipe = FLATCLIP_RECIPE_HF;
    fc_clip_default_normalisation(&config);
    strcpy(config.source, "a \"quoted\" name");
    memset(config.source_sha256, 'a', 64);
    memset(config.weights_sha256, '5', 64);
    return config;
}

static void put(void *object, const char *key, const char *value)
{
    cJSON_AddStringToObject(object, key, value);
}

/* The header of a model file, as a tree that a test can spoil. */
static cJSON *build_header(const fc_clip_config *config, const char *dtype, int bytes)
{
    cJSON *root = cJSON_CreateObject();
    uint64_t offset = 0;
    fc_clip_config_write(config, put, cJSON_AddObjectToObject(root, "__metadata__"));
    for (int i = 0; i < fc_clip_tensor_count(config); i++) {
        fc_tensor_spec spec;
        fc_clip_tensor_spec(config, i, &spec);
        offset = add_header_entry(root, spec.name, dtype, spec.dim, spec.rank, offset,
                                  spec.count * (uint64_t)bytes);
    }
    return root;
}

static cJSON *member(cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* The tree as an open file; the tree is freed. The file's size is what the last tensor needs. */
static fc_safetensors *parse_header(cJSON *root)
{
    double data_bytes = 0;
    cJSON *entry;
    fc_safetensors *file;
    flatclip_error err;
    cJSON_ArrayForEach(entry, root) {
        const cJSON *end = cJSON_GetArrayItem(member(entry, "data_offsets"), 1);
        if (end && end->valuedouble > data_bytes)
            data_bytes = end->valuedouble;
    }
    char *text = cJSON_Print(root);
    if (fc_safetensors_parse("m.safetensors", text, strlen(text),
                             8 + strlen(text) + (uint64_t)data_bytes, &file, &err))
        fail_msg("%s", err.message);
    free(text);
    cJSON_Delete(root);
    return file;
}

/* -- Metadata -------------------------------------------------------------------------------- */

static void assert_round_trip(const fc_clip_config *config)
{
    fc_clip_config read;
    flatclip_error err;
    fc_safetensors *file = parse_header(build_header(config, "F32", 4));
    if (fc_clip_config_read(file, &read, &err))
        fail_msg("%s", err.message);
    assert_memory_equal(&read, config, sizeof read);
    fc_safetensors_close(file);
}

static void a_configuration_survives_writing_and_reading(void **state)
{
    fc_clip_config config = small_config();
    (void)state;
    assert_round_trip(&config);
    config.activation = FLATCLIP_ACTIVATION_QUICKGELU;
    config.recipe = FLATCLIP_RECIPE_OPENAI;
    memset(config.source_sha256, 0, sizeof config.source_sha256);
    assert_round_trip(&config);
    config.text = (fc_tower_config){ 0, 0, 0 };
    config.context_length = config.vocab_size = 0;
    assert_round_trip(&config);
}

static void every_float_survives_as_a_decimal(void **state)
{
    fc_clip_config config = small_config();
    uint32_t bits = 1;
    (void)state;
    for (int i = 0; i < 3000; i++) {
        float value;
        bits = bits * 1664525 + 1013904223;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value) || value == 0)
            continue;
        config.mean[i % 3] = value;
        config.std[(i + 1) % 3] = fabsf(value);
        if (i % 100 == 0)
            assert_round_trip(&config);
    }
}

static void the_locale_of_the_program_changes_nothing(void **state)
{
    static const char *const with_comma[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8",
                                              "pl_PL.UTF-8", "es_ES.UTF-8", "de_DE" };
    const fc_clip_config config = small_config();
    size_t i = 0;
    (void)state;
    while (i < 6 && !setlocale(LC_NUMERIC, with_comma[i]))
        i++;
    if (i == 6)
        skip(); /* none is installed here */
    cJSON *header = build_header(&config, "F32", 4);
    const char *mean = cJSON_GetStringValue(member(member(header, "__metadata__"), "mean"));
    assert_null(strchr(mean, ','));
    cJSON_Delete(header);
    assert_round_trip(&config);
    assert_string_equal(localeconv()->decimal_point, ","); /* and it is left as it was */
    setlocale(LC_NUMERIC, "C");
}

/* Sets (or, with NULL, deletes) one key of a good file's metadata and expects a message. */
static void expect_refusal(const char *key, const char *value, const char *says)
{
    const fc_clip_config config = small_config();
    cJSON *header = build_header(&config, "F32", 4);
    cJSON *metadata = member(header, "__metadata__");
    fc_clip_config read;
    flatclip_error err;
    cJSON_DeleteItemFromObjectCaseSensitive(metadata, key);
    if (value)
        cJSON_AddStringToObject(metadata, key, value);
    fc_safetensors *file = parse_header(header);
    if (fc_clip_config_read(file, &read, &err) != FLATCLIP_ERR_FORMAT)
        fail_msg("accepted: %s = %s", key, value ? value : "(missing)");
    if (!strstr(err.message, "m.safetensors") || !strstr(err.message, says))
        fail_msg("%s = %s: \"%s\" does not say \"%s\"", key, value ? value : "(missing)",
                 err.message, says);
    fc_safetensors_close(file);
}

static void every_missing_key_is_named(void **state)
{
    static const char *const keys[] = {
        "image_size", "patch_size", "embed_dim", "vision_width", "vision_layers", "vision_heads",
        "text_width", "text_heads", "context_length", "vocab_size", "activation", "recipe", "mean",
        "std"
    };
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        expect_refusal(keys[i], NULL, keys[i]);
}

static void every_wrong_value_is_named(void **state)
{
    static const char *const wrong[][3] = {
        { "format_version", "2", "format_version is 2" },
        { "format_version", NULL, "format_version is missing" },
        { "image_size", "-96", "whole number" },
        { "image_size", "96.0", "whole number" },
        { "image_size", " 96", "whole number" },
        { "image_size", "", "whole number" },
        { "image_size", "99999999999999999999", "whole number" },
        { "image_size", "0", "image_size is 0" },
        { "image_size", "100", "not a multiple of patch_size" },
        { "image_size", "1000000", "image_size is 1000000" },
        { "patch_size", "0", "patch_size is 0" },
        { "patch_size", "97", "patch_size is 97" },
        { "embed_dim", "0", "embed_dim is 0" },
        { "vision_width", "100", "heads of size 64" },
        { "vision_width", "1048576", "vision_width is 1048576" },
        { "vision_heads", "3", "heads of size 64" },
        { "vision_layers", "0", "vision_layers is 0" },
        { "vision_layers", "100000", "vision_layers is 100000" },
        { "text_heads", "2", "heads of size 64" },
        { "context_length", "0", "context_length is 0" },
        { "vocab_size", "999999999", "vocab_size is 999999999" },
        { "activation", "relu", "expected quickgelu or gelu" },
        { "recipe", "auto", "expected openai or hf" },
        { "mean", "0.1 0.2", "three decimals" },
        { "mean", "0.1 0.2 0.3 0.4", "three decimals" },
        { "mean", "0,1 0,2 0,3", "three decimals" },
        { "mean", "0.1  0.2 0.3", "three decimals" },
        { "mean", "0.1 0.2 nan", "three decimals" },
        { "mean", "0.1 0.2 1e99", "mean[2] is not finite" },
        { "std", "0.1 0 0.3", "std[1] is not a positive" },
        { "std", "-1 1 1", "std[0] is not a positive" },
        { "source_sha256", "abc", "64 lower-case" },
        { "weights_sha256", "G", "64 lower-case" },
    };
    char long_source[200];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refusal(wrong[i][0], wrong[i][1], wrong[i][2]);
    memset(long_source, 's', sizeof long_source);
    long_source[128] = '\0';
    expect_refusal("source", long_source, "source has 128 bytes");
    long_source[65] = '\0';
    expect_refusal("weights_sha256", long_source, "weights_sha256 has 65 bytes");
}

static void a_file_that_is_no_model_of_ours_is_sent_to_convert(void **state)
{
    (void)state;
    expect_refusal("format", NULL, "flatclip convert");
    expect_refusal("format", "pt", "flatclip convert");
}

/* -- Tensors --------------------------------------------------------------------------------- */

static void the_list_of_vit_b_32_is_the_published_one(void **state)
{
    fc_clip_config config = { .image_size = 224, .patch_size = 32, .embed_dim = 512 };
    fc_tensor_spec spec;
    uint64_t total = 0;
    (void)state;
    config.vision = (fc_tower_config){ 768, 12, 12 };
    config.text = (fc_tower_config){ 512, 12, 8 };
    config.context_length = 77;
    config.vocab_size = 49408;
    assert_int_equal(fc_clip_tokens(&config), 50);
    assert_int_equal(fc_clip_tensor_count(&config), 302);
    for (int i = 0; i < 302; i++) {
        fc_clip_tensor_spec(&config, i, &spec);
        total += spec.count;
    }
    assert_int_equal(total, 151277313); /* parameters of OpenAI's ViT-B/32 */
    assert_string_equal(spec.name, "ln_final.bias");
    fc_clip_tensor_spec(&config, 3, &spec);
    assert_string_equal(spec.name, "visual.conv1.weight");
    assert_int_equal(spec.rank, 4);
    assert_int_equal(spec.dim[3], 32);
    fc_clip_tensor_spec(&config, 6 + 11 * 12, &spec);
    assert_string_equal(spec.name, "visual.transformer.resblocks.11.attn.in_proj_weight");
    assert_int_equal(spec.dim[0], 3 * 768);
    fc_clip_tensor_spec(&config, 154, &spec);
    assert_string_equal(spec.name, "logit_scale");
    assert_int_equal(spec.rank, 0);
    assert_int_equal(spec.count, 1);
}

static flatclip_status check(cJSON *header, flatclip_error *err)
{
    const fc_clip_config config = small_config();
    fc_safetensors *file = parse_header(header);
    const flatclip_status status = fc_clip_check_tensors(file, &config, err);
    fc_safetensors_close(file);
    return status;
}

static void exactly_the_tensors_of_the_model_are_accepted(void **state)
{
    const fc_clip_config config = small_config();
    flatclip_error err;
    (void)state;
    assert_int_equal(check(build_header(&config, "F32", 4), &err), FLATCLIP_OK);
    assert_int_equal(check(build_header(&config, "F16", 2), &err), FLATCLIP_OK);
    assert_int_equal(check(build_header(&config, "BF16", 2), &err), FLATCLIP_OK);
    assert_int_equal(check(build_header(&config, "F64", 8), &err), FLATCLIP_ERR_FORMAT);
    assert_non_null(strstr(err.message, "visual.class_embedding is stored as F64"));
    assert_int_equal(check(build_header(&config, "U8", 1), &err), FLATCLIP_ERR_FORMAT);
}

static void every_missing_tensor_is_named(void **state)
{
    const fc_clip_config config = small_config();
    flatclip_error err;
    (void)state;
    for (int i = 0; i < fc_clip_tensor_count(&config); i++) {
        fc_tensor_spec spec;
        char says[120];
        cJSON *header = build_header(&config, "F32", 4);
        fc_clip_tensor_spec(&config, i, &spec);
        cJSON *entry = cJSON_DetachItemFromObjectCaseSensitive(header, spec.name);
        cJSON_AddItemToObject(header, "other", entry); /* the hole must not be what is found */
        assert_int_equal(check(header, &err), FLATCLIP_ERR_FORMAT);
        snprintf(says, sizeof says, "tensor %s is missing", spec.name);
        if (!strstr(err.message, says))
            fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    }
}

static void a_wrong_shape_is_named_with_the_right_one(void **state)
{
    const fc_clip_config config = small_config();
    cJSON *header = build_header(&config, "F32", 4);
    flatclip_error err;
    (void)state;
    cJSON_ReplaceItemInObjectCaseSensitive(member(header, "visual.proj"), "shape",
                                           cJSON_CreateIntArray((int[]){ 40, 128 }, 2));
    assert_int_equal(check(header, &err), FLATCLIP_ERR_FORMAT);
    assert_non_null(strstr(err.message, "visual.proj has shape [40, 128], expected [128, 40]"));
}

static void an_extra_tensor_is_named(void **state)
{
    const fc_clip_config config = small_config();
    cJSON *header = build_header(&config, "F32", 4);
    flatclip_error err;
    (void)state;
    add_header_entry(header, "visual.extra", "F32", (uint64_t[]){ 0 }, 1, 0, 0);
    assert_int_equal(check(header, &err), FLATCLIP_ERR_FORMAT);
    assert_non_null(strstr(err.message, "tensor visual.extra does not belong"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_configuration_survives_writing_and_reading),
        cmocka_unit_test(every_float_survives_as_a_decimal),
        cmocka_unit_test(the_locale_of_the_program_changes_nothing),
        cmocka_unit_test(every_missing_key_is_named),
        cmocka_unit_test(every_wrong_value_is_named),
        cmocka_unit_test(a_file_that_is_no_model_of_ours_is_sent_to_convert),
        cmocka_unit_test(the_list_of_vit_b_32_is_the_published_one),
        cmocka_unit_test(exactly_the_tensors_of_the_model_are_accepted),
        cmocka_unit_test(every_missing_tensor_is_named),
        cmocka_unit_test(a_wrong_shape_is_named_with_the_right_one),
        cmocka_unit_test(an_extra_tensor_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
