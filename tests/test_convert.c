/* convert.c and what it is made of: every layout gives the same weights, the activation is never
 * guessed, and what cannot be run is refused by name. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <locale.h>

#include "tests/header_entry.h"
#include "tests/temp_folder.h"
#include "weights_tools/convert.h"
#include "weights_tools/synth.h"

#define CHECKPOINTS "tests/data/checkpoints/"
static const char MICRO[] = "7228987683a38e223515706651e7fa3bb12199b5c1ee9dacb0a4c1df167efbae";
static const char MICRO_BF16[] = "eb2f38164b041eb046786ed0055b754a87c667a1576102a96aea591d20202082";
static const fc_convert_options TO_F32 = { FC_F32, 0, (flatclip_activation)0, 0 };
static const fc_convert_options QUICK = { FC_F32, 0, FLATCLIP_ACTIVATION_QUICKGELU, 0 };

/* -- Helpers --------------------------------------------------------------------------------- */

static void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* Converts into the folder's out.safetensors; the result must load as what the report says. */
static fc_convert_report convert(const temp_folder *folder, const char *source,
                                 const fc_convert_options *options)
{
    char path[PATH_MAX];
    fc_convert_report report;
    fc_clip_config config;
    fc_safetensors *file = NULL;
    flatclip_error err;
    if (fc_convert(source, options, temp_path(folder, "out.safetensors", path), &report, &err) ||
        fc_safetensors_open(path, &file, &err) || fc_clip_config_read(file, &config, &err) ||
        fc_clip_check_tensors(file, &config, &err))
        fail_msg("%s", err.message);
    assert_memory_equal(&config, &report.config, sizeof config);
    fc_safetensors_close(file);
    return report;
}

static void expect_refusal(const temp_folder *folder, const char *source,
                           const fc_convert_options *options, flatclip_status expected,
                           const char *says)
{
    char path[PATH_MAX];
    flatclip_error err;
    const int before = count_temp_files(folder);
    const flatclip_status status = fc_convert(
        source, options, temp_path(folder, "refused.safetensors", path), NULL, &err);
    if (status == FLATCLIP_OK)
        fail_msg("accepted, expected: %s", says);
    expect_text(err.message, says);
    assert_int_equal(status, expected);
    assert_int_equal(count_temp_files(folder), before); /* nothing is left behind */
}

static void write_text(const temp_folder *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    FILE *file = fopen(temp_path(folder, name, path), "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Renames a tensor into new_name [200], or drops it by returning 0. */
typedef int rename_fn(const char *name, char *new_name);

/* Writes source's tensors under new names as name in folder, followed by a tensor called extra
 * (NULL: none) of no elements. Returns the path. */
static const char *rewrite(const temp_folder *folder, const char *source, const char *name,
                           rename_fn *rename_tensor, const char *extra, char path[PATH_MAX])
{
    static char data[4 << 20];
    fc_safetensors *file;
    flatclip_error err;
    cJSON *root = cJSON_CreateObject();
    uint64_t used = 0;
    FILE *in = fopen(source, "rb");
    assert_int_equal(fc_safetensors_open(source, &file, &err), FLATCLIP_OK);
    for (size_t i = 0; i < fc_safetensors_count(file); i++) {
        const fc_tensor *tensor = fc_safetensors_at(file, i);
        char new_name[200];
        if (!rename_tensor(tensor->name, new_name))
            continue;
        fseek(in, (long)tensor->offset, SEEK_SET);
        assert_int_equal(fread(data + used, 1, tensor->bytes, in), tensor->bytes);
        used = add_header_entry(root, new_name, fc_dtype_name(tensor->dtype), tensor->dim,
                                tensor->rank, used, tensor->bytes);
    }
    if (extra)
        add_header_entry(root, extra, "I64", (uint64_t[]){ 0 }, 1, used, 0);
    fclose(in);
    fc_safetensors_close(file);

    char *header = cJSON_PrintUnformatted(root);
    const uint64_t header_bytes = strlen(header);
    FILE *out = fopen(temp_path(folder, name, path), "wb");
    fwrite(&header_bytes, 8, 1, out);
    fwrite(header, 1, header_bytes, out);
    fwrite(data, 1, (size_t)used, out);
    assert_int_equal(fclose(out), 0);
    free(header);
    cJSON_Delete(root);
    return path;
}

static int keep_name(const char *name, char *new_name)
{
    return snprintf(new_name, 200, "%s", name);
}

static int add_module(const char *name, char *new_name)
{
    return snprintf(new_name, 200, "module.%s", name);
}

static int keep_vision_and_scale(const char *name, char *new_name)
{
    return !strncmp(name, "vis", 3) || !strcmp(name, "logit_scale") ? keep_name(name, new_name)
                                                                    : 0;
}

static int drop_projection(const char *name, char *new_name)
{
    return strcmp(name, "visual_projection.weight") ? keep_name(name, new_name) : 0;
}

static int drop_text_layers(const char *name, char *new_name)
{
    return strncmp(name, "transformer.", 12) ? keep_name(name, new_name) : 0;
}

static int drop_value_bias(const char *name, char *new_name)
{
    return strcmp(name, "vision_model.encoder.layers.0.self_attn.v_proj.bias")
               ? keep_name(name, new_name) : 0;
}

static int swap_biases(const char *name, char *new_name)
{
    const int c_fc = !strcmp(name, "visual.transformer.resblocks.0.mlp.c_fc.bias");
    const int ln_1 = !strcmp(name, "visual.transformer.resblocks.0.ln_1.bias");
    return snprintf(new_name, 200, "%s",
                    c_fc   ? "visual.transformer.resblocks.0.ln_1.bias"
                    : ln_1 ? "visual.transformer.resblocks.0.mlp.c_fc.bias" : name);
}

static int to_resnet(const char *name, char *new_name)
{
    return !strcmp(name, "visual.proj") ? snprintf(new_name, 200, "visual.layer1.0.conv1.weight")
                                        : keep_name(name, new_name);
}

static int to_timm(const char *name, char *new_name)
{
    return !strncmp(name, "visual.", 7) ? snprintf(new_name, 200, "visual.trunk.%s", name + 7)
                                        : keep_name(name, new_name);
}

/* -- Good sources ---------------------------------------------------------------------------- */

static void every_layout_gives_the_same_weights(void **state)
{
    static const struct {
        const char *source, *layout, *activation, *recipe, *name;
    } good[] = {
        { CHECKPOINTS "hf", "Hugging Face", "quickgelu: config.json has hidden_act quick_gelu",
          "openai: no preprocessor_config.json", "model.safetensors" },
        { CHECKPOINTS "hf/model.safetensors", "Hugging Face", "quickgelu: config.json",
          "openai: no preprocessor_config.json", "model.safetensors" },
        { CHECKPOINTS "open_clip_model.safetensors", "open_clip",
          "quickgelu: open_clip_config.json has quick_gelu true", "openai: as OpenAI's",
          "open_clip_model.safetensors" },
        { CHECKPOINTS, "open_clip", "quickgelu: open_clip_config.json", "openai: as OpenAI's",
          "open_clip_model.safetensors" },
        { CHECKPOINTS "hf/pytorch_model.bin", "Hugging Face", "quickgelu: config.json",
          "openai: no preprocessor_config.json", "pytorch_model.bin" },
        { CHECKPOINTS "open_clip_training.pt", "open_clip's, with the prefix module.",
          "quickgelu: open_clip_config.json", "openai: as OpenAI's", "open_clip_training.pt" },
        { CHECKPOINTS "openai_jit_fp16.pt", "OpenAI's",
          "quickgelu: its own code computes x * sigmoid(1.702 x)", "openai: no configuration",
          "openai_jit_fp16.pt" },
        { CHECKPOINTS "openai_state_fp16.pt", "OpenAI's", NULL, "openai: no configuration",
          "openai_state_fp16.pt" },
        { CHECKPOINTS "openai_state_fp32.pt", "OpenAI's", NULL, "openai: no configuration",
          "openai_state_fp32.pt" },
        { CHECKPOINTS "openai_state_legacy.pt", "OpenAI's", NULL, "openai: no configuration",
          "openai_state_legacy.pt" },
        { CHECKPOINTS "views.pt", "OpenAI's", NULL, "openai: no configuration", "views.pt" },
        { CHECKPOINTS "deflated.pt", "OpenAI's", NULL, "openai: no configuration",
          "deflated.pt" },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!good[i].activation) /* nothing tells it: a configuration beside is another file's */
            expect_refusal(*state, good[i].source, &TO_F32, FLATCLIP_ERR_FORMAT,
                           "open_clip_config.json may belong to another checkpoint");
        const fc_convert_report report = convert(*state, good[i].source,
                                                 good[i].activation ? &TO_F32 : &QUICK);
        assert_string_equal(report.config.weights_sha256, MICRO);
        expect_text(report.layout, good[i].layout);
        expect_text(report.activation, good[i].activation ? good[i].activation
                                                          : "quickgelu: as asked");
        assert_non_null(strstr(report.activation, report.config.activation_from));
        expect_text(report.recipe, good[i].recipe);
        assert_string_equal(report.config.source, good[i].name);
        assert_int_equal(strlen(report.config.source_sha256), 64);
        assert_int_equal(report.config.image_size, 224);
        assert_int_equal(report.config.patch_size, 32);
        assert_int_equal(report.config.embed_dim, 32);
        assert_int_equal(report.config.vision.heads, 1);
        assert_int_equal(report.config.text.layers, 1);
        assert_int_equal(report.config.vocab_size, 1000);
    }
}

static void what_is_left_out_is_reported(void **state)
{
    static const char *const expected[][2] = {
        { CHECKPOINTS "hf", "" },
        { CHECKPOINTS "hf/pytorch_model.bin", "position_ids and 1 more that hold no weights" },
        { CHECKPOINTS "open_clip_training.pt", "optimizer" },
        { CHECKPOINTS "openai_jit_fp16.pt", "input_resolution and 2 more that hold no weights" },
        { CHECKPOINTS "views.pt", "note" },
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const fc_convert_report report = convert(*state, expected[i][0], &QUICK);
        if (expected[i][1][0])
            expect_text(report.ignored, expected[i][1]);
        else
            assert_string_equal(report.ignored, "");
    }
}

/* The type of one tensor of the converted file. */
static fc_dtype stored_type(const temp_folder *folder)
{
    char path[PATH_MAX];
    fc_safetensors *file;
    flatclip_error err;
    assert_int_equal(fc_safetensors_open(temp_path(folder, "out.safetensors", path), &file, &err),
                     FLATCLIP_OK);
    const fc_dtype dtype = fc_safetensors_find(file, "visual.proj")->dtype;
    fc_safetensors_close(file);
    return dtype;
}

static void types_are_kept_or_changed_as_asked(void **state)
{
    const char *bf16 = CHECKPOINTS "open_clip_bf16.safetensors";
    const fc_convert_options keep = { FC_F32, 1, (flatclip_activation)0, 0 };
    const fc_convert_options half = { FC_F16, 0, (flatclip_activation)0, 0 };
    assert_string_equal(convert(*state, bf16, &keep).config.weights_sha256, MICRO_BF16);
    assert_int_equal(stored_type(*state), FC_BF16);
    assert_string_equal(convert(*state, bf16, &TO_F32).config.weights_sha256, MICRO_BF16);
    assert_int_equal(stored_type(*state), FC_F32);
    assert_string_equal(convert(*state, CHECKPOINTS "bf16.pt", &QUICK).config.weights_sha256,
                        MICRO_BF16);
    assert_string_equal(convert(*state, CHECKPOINTS "hf", &keep).config.weights_sha256, MICRO);
    assert_int_equal(stored_type(*state), FC_F32);
    assert_string_equal(convert(*state, CHECKPOINTS "hf", &half).config.weights_sha256, MICRO);
    assert_int_equal(stored_type(*state), FC_F16);
}

static void without_a_configuration_the_activation_must_be_given(void **state)
{
    char path[PATH_MAX];
    const fc_convert_options gelu = { FC_F32, 0, FLATCLIP_ACTIVATION_GELU, 0 };
    rewrite(*state, CHECKPOINTS "open_clip_model.safetensors", "alone.safetensors", keep_name,
            NULL, path);
    expect_refusal(*state, path, &TO_F32, FLATCLIP_ERR_FORMAT,
                   "--activation quickgelu (OpenAI's weights) or gelu");
    fc_convert_report report = convert(*state, path, &QUICK);
    assert_string_equal(report.config.weights_sha256, MICRO);
    assert_string_equal(report.activation, "quickgelu: as asked");
    report = convert(*state, path, &gelu);
    assert_int_equal(report.config.activation, FLATCLIP_ACTIVATION_GELU);
    report = convert(*state, CHECKPOINTS "open_clip_model.safetensors", &gelu);
    assert_int_equal(report.config.activation, FLATCLIP_ACTIVATION_GELU);
    assert_string_equal(report.activation,
                        "gelu: as asked, although open_clip_config.json has quick_gelu true");
}

static void a_prefix_is_stripped_and_what_holds_no_weights_is_left_out(void **state)
{
    char path[PATH_MAX];
    rewrite(*state, CHECKPOINTS "open_clip_model.safetensors", "a.safetensors", add_module,
            "module.context_length", path);
    fc_convert_report report = convert(*state, path, &QUICK);
    assert_string_equal(report.config.weights_sha256, MICRO);
    expect_text(report.layout, "module.");
    assert_string_equal(report.ignored, "module.context_length");

    rewrite(*state, CHECKPOINTS "hf/model.safetensors", "b.safetensors", add_module,
            "module.text_model.embeddings.position_ids", path);
    report = convert(*state, path, &QUICK);
    assert_string_equal(report.config.weights_sha256, MICRO);
    expect_text(report.ignored, "position_ids");
}

static void a_model_of_images_alone_is_converted(void **state)
{
    char path[PATH_MAX];
    const char *const sources[] = { CHECKPOINTS "hf/model.safetensors",
                                    CHECKPOINTS "open_clip_model.safetensors" };
    for (int i = 0; i < 2; i++) {
        rewrite(*state, sources[i], "vision.safetensors", keep_vision_and_scale, NULL, path);
        const fc_convert_report report = convert(*state, path, &QUICK);
        assert_int_equal(report.config.text.layers, 0);
        assert_int_equal(report.config.vocab_size, 0);
        assert_string_equal(report.ignored, "logit_scale");
        assert_int_equal(fc_clip_tensor_count(&report.config), 6 + 12 + 2);
    }
}

static void a_model_file_of_ours_can_change_its_type(void **state)
{
    char path[PATH_MAX];
    const fc_convert_options bf16 = { FC_BF16, 0, (flatclip_activation)0, 0 };
    flatclip_error err;
    temp_path(*state, "own.safetensors", path);
    assert_int_equal(fc_synth_write("micro", 1, FC_F32, path, &err), FLATCLIP_OK);
    const fc_convert_report report = convert(*state, path, &bf16);
    assert_string_equal(report.config.weights_sha256, MICRO_BF16);
    assert_string_equal(report.config.source, "synth micro seed 1");
    assert_string_equal(report.activation, "quickgelu: its metadata says so");
}

static void a_name_that_json_cannot_hold_is_made_readable(void **state)
{
    static const char *const names[][2] = {
        { "a\xff\"\xc3\xa9.safetensors", "a?\"??.safetensors" },
        { "a\"\xc3\xa9.safetensors", "a\"\xc3\xa9.safetensors" },
    };
    char path[PATH_MAX], out[PATH_MAX];
    for (size_t i = 0; i < 2; i++) {
        fc_clip_config config;
        fc_safetensors *file;
        flatclip_error err;
        rewrite(*state, CHECKPOINTS "open_clip_model.safetensors", names[i][0], keep_name, NULL,
                path);
        assert_int_equal(fc_convert(path, &QUICK, temp_path(*state, "out", out), NULL, &err),
                         FLATCLIP_OK);
        assert_int_equal(fc_safetensors_open(out, &file, &err), FLATCLIP_OK);
        assert_int_equal(fc_clip_config_read(file, &config, &err), FLATCLIP_OK);
        assert_string_equal(config.source, names[i][1]);
        fc_safetensors_close(file);
    }
}

/* -- Configuration files --------------------------------------------------------------------- */

/* A checkpoint of that layout under its usual name in the folder, whose path is filled. */
static void place(const temp_folder *folder, int is_hf, char path[PATH_MAX])
{
    rewrite(folder, is_hf ? CHECKPOINTS "hf/model.safetensors"
                          : CHECKPOINTS "open_clip_model.safetensors",
            is_hf ? "model.safetensors" : "open_clip_model.safetensors", keep_name, NULL, path);
}

#define MODEL(vision, text, rest) \
    "{\"model_cfg\":{\"embed_dim\":32,\"vision_cfg\":{" vision "},\"text_cfg\":{" text "}}" rest "}"
#define PREPROCESS(keys) MODEL("", "", ",\"preprocess_cfg\":{" keys "}")

static void open_clip_configurations_are_obeyed_or_refused(void **state)
{
    static const char *const refused[][2] = {
        { "{", "open_clip_config.json: no valid JSON" },
        { "[]", "is no JSON object" },
        { "{\"a\":1,\"a\":2}", "the key a twice" },
        { "{}", "has no model_cfg" },
        { MODEL("\"width\":128", "", ""), "says vision width 128, but the tensors have 64" },
        { MODEL("\"layers\":2", "", ""), "says vision layers 2" },
        { MODEL("\"image_size\":336", "", ""), "says image_size 336, but the tensors have 224" },
        { MODEL("\"patch_size\":16", "", ""), "says patch_size 16" },
        { MODEL("\"width\":\"64\"", "", ""), "width is not a positive whole number" },
        { MODEL("\"image_size\":[224,336]", "", ""), "image_size is not a square" },
        { MODEL("\"width\":64,\"head_width\":32", "", ""), "heads of size 64" },
        { MODEL("\"layers\":[3,4,6,3]", "", ""), "ResNet" },
        { MODEL("\"timm_model_name\":\"convnext\"", "", ""), "timm image tower convnext" },
        { MODEL("\"width\":64,\"head_width\":2000", "", ""), "heads of size 2000" },
        { MODEL("\"pool_type\":\"avg\"", "", ""), "pool_type avg" },
        { MODEL("\"scale_fc\":true", "", ""), "asks for scale_fc" },
        { MODEL("", "\"proj_type\":\"none\"", ""), "proj_type none" },
        { MODEL("", "\"width\":64", ""), "8 heads" }, /* open_clip's default */
        { MODEL("\"no_ln_pre\":true", "", ""), "no_ln_pre" },
        { MODEL("\"norm_kwargs\":{\"eps\":1e-6}", "", ""), "norm_kwargs" },
        { MODEL("", "\"vocab_size\":999", ""), "says vocabulary size 999" },
        { MODEL("", "\"context_length\":64", ""), "says context length 64" },
        { MODEL("", "\"width\":64,\"heads\":2", ""), "heads of size 64" },
        { MODEL("", "\"hf_model_name\":\"roberta\"", ""), "hf_model_name" },
        { PREPROCESS("\"interpolation\":\"bilinear\""), "interpolation bilinear" },
        { PREPROCESS("\"resize_mode\":\"squash\""), "resize_mode squash" },
        { PREPROCESS("\"mean\":[0.5,0.5]"), "mean is not a list of three" },
        { PREPROCESS("\"std\":[0.5,0,0.5]"), "std[1] is not a positive" },
        { MODEL("\"image_size\":224", "", ",\"preprocess_cfg\":{\"size\":336}"), "has size 336" },
    };
    char path[PATH_MAX];
    place(*state, 0, path);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        write_text(*state, "open_clip_config.json", refused[i][0]);
        expect_refusal(*state, path, &QUICK, FLATCLIP_ERR_FORMAT, refused[i][1]);
    }
    write_text(*state, "open_clip_config.json",
               PREPROCESS("\"mean\":[0.5,0.25,0.125],\"std\":[1,2,3],\"resize_mode\":\"shortest\","
                          "\"interpolation\":\"bicubic\",\"size\":[224,224]"));
    const fc_convert_report report = convert(*state, path, &TO_F32);
    assert_int_equal(report.config.activation, FLATCLIP_ACTIVATION_GELU);
    expect_text(report.activation, "no quick_gelu, which means exact GELU");
    assert_true(report.config.mean[1] == 0.25f && report.config.std[2] == 3);
}

/* A folder of downloads: the configuration that lies there may be another file's. */
static void a_configuration_of_another_checkpoint_is_not_believed(void **state)
{
    char path[PATH_MAX], other[PATH_MAX], ours[PATH_MAX];
    flatclip_error err;
    rewrite(*state, CHECKPOINTS "open_clip_model.safetensors", "ViT.safetensors", keep_name, NULL,
            path);
    write_text(*state, "open_clip_config.json", MODEL("", "", ""));
    fc_convert_report report = convert(*state, path, &TO_F32); /* no other is there */
    assert_int_equal(report.config.activation, FLATCLIP_ACTIVATION_GELU);
    assert_int_equal(fc_convert(path, &TO_F32, temp_path(*state, "ours.safetensors", ours), NULL,
                                &err), FLATCLIP_OK); /* models of ours do not count */
    rewrite(*state, CHECKPOINTS "open_clip_model.safetensors", "other.safetensors", keep_name, NULL,
            other);
    expect_refusal(*state, path, &TO_F32, FLATCLIP_ERR_FORMAT,
                   "open_clip_config.json may belong to another checkpoint");
    place(*state, 0, path); /* but its own name tells that it is this one's */
    report = convert(*state, path, &TO_F32);
    assert_int_equal(report.config.activation, FLATCLIP_ACTIVATION_GELU);
}

static void positions_of_another_grid_are_resampled_only_when_asked(void **state)
{
    char path[PATH_MAX], out[PATH_MAX];
    const fc_convert_options resize = { FC_F32, 0, FLATCLIP_ACTIVATION_QUICKGELU, 1 };
    float from[64], to[64];
    fc_safetensors *before, *after;
    flatclip_error err;
    place(*state, 0, path);
    fc_convert_report report = convert(*state, path, &resize); /* nothing asks for another */
    assert_string_equal(report.positions, "");
    assert_string_equal(report.config.weights_sha256, MICRO);
    write_text(*state, "open_clip_config.json", MODEL("\"image_size\":320", "", ""));
    expect_refusal(*state, path, &QUICK, FLATCLIP_ERR_FORMAT, "--resize-pos resamples them");
    report = convert(*state, path, &resize);
    expect_text(report.positions, "from 7 x 7 to 10 x 10 (bicubic)");
    assert_int_equal(report.config.image_size, 320);
    write_text(*state, "open_clip_config.json", MODEL("\"image_size\":330", "", ""));
    expect_refusal(*state, path, &resize, FLATCLIP_ERR_FORMAT, "no multiple of their patches");

    assert_int_equal(fc_safetensors_open(path, &before, &err), FLATCLIP_OK);
    assert_int_equal(fc_safetensors_open(temp_path(*state, "out.safetensors", out), &after, &err),
                     FLATCLIP_OK);
    const char *name = "visual.positional_embedding"; /* the class token's row stays as it is */
    assert_int_equal(fc_safetensors_find(after, name)->dim[0], 101);
    assert_int_equal(fc_safetensors_read_f32(before, fc_safetensors_find(before, name), 0, 64, from,
                                             &err), FLATCLIP_OK);
    assert_int_equal(fc_safetensors_read_f32(after, fc_safetensors_find(after, name), 0, 64, to,
                                             &err), FLATCLIP_OK);
    assert_memory_equal(from, to, sizeof from);
    fc_safetensors_close(before);
    fc_safetensors_close(after);
}

#define HF(keys) "{\"model_type\":\"clip\",\"vision_config\":{" keys "}}"

static void hugging_face_configurations_are_obeyed_or_refused(void **state)
{
    static const char *const refused[][2] = {
        { "{}", "has no vision_config" },
        { "{\"model_type\":\"siglip\",\"vision_config\":{}}", "type siglip" },
        { HF("\"hidden_act\":\"gelu_new\""), "hidden_act gelu_new" },
        { HF("\"layer_norm_eps\":1e-6"), "layer_norm_eps 1e-06" },
        { HF("\"hidden_size\":64,\"num_attention_heads\":4"), "heads of size 64" },
        { HF("\"hidden_size\":64"), "12 heads" }, /* the library's default */
        { HF("\"image_size\":336"), "says image_size 336" },
        { "{\"vision_config\":{\"hidden_act\":\"gelu\"},\"text_config\":{}}",
          "two towers different values of hidden_act" },
    };
    char path[PATH_MAX];
    place(*state, 1, path);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        write_text(*state, "config.json", refused[i][0]);
        expect_refusal(*state, path, &QUICK, FLATCLIP_ERR_FORMAT, refused[i][1]);
    }
    write_text(*state, "config.json", "{\"vision_config\":{\"hidden_act\":\"gelu\"},"
                                      "\"vision_config_dict\":{\"hidden_size\":64,"
                                      "\"num_attention_heads\":1}}");
    expect_refusal(*state, path, &TO_F32, FLATCLIP_ERR_FORMAT, "contradicts itself");
    assert_int_equal(convert(*state, path, &QUICK).config.activation,
                     FLATCLIP_ACTIVATION_QUICKGELU);
    write_text(*state, "config.json", HF("\"hidden_act\":\"gelu\""));
    assert_int_equal(convert(*state, path, &TO_F32).config.activation, FLATCLIP_ACTIVATION_GELU);
    write_text(*state, "config.json", HF(""));
    assert_int_equal(convert(*state, path, &TO_F32).config.activation,
                     FLATCLIP_ACTIVATION_QUICKGELU);
}

static void a_preprocessor_decides_recipe_mean_and_std(void **state)
{
    static const char *const refused[][2] = {
        { "{\"resample\":2}", "resample 2, only 3 (bicubic)" },
        { "{\"do_resize\":false}", "do_resize false" },
        { "{\"do_center_crop\":false}", "do_center_crop false" },
        { "{\"do_normalize\":false}", "do_normalize false" },
        { "{\"size\":{\"height\":224,\"width\":224}}", "does not keep the proportions" },
        { "{\"rescale_factor\":1}", "rescale_factor 1" },
        { "{\"image_processor_type\":\"ViTImageProcessor\"}", "asks for a ViTImageProcessor" },
        { "{\"size\":336}", "size is 336, but the model's image_size is 224" },
        { "{\"image_mean\":[1,2,\"3\"]}", "image_mean is not a list of three numbers" },
    };
    char path[PATH_MAX];
    place(*state, 1, path);
    write_text(*state, "config.json", HF("\"image_size\":224"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        write_text(*state, "preprocessor_config.json", refused[i][0]);
        expect_refusal(*state, path, &TO_F32, FLATCLIP_ERR_FORMAT, refused[i][1]);
    }
    write_text(*state, "preprocessor_config.json",
               "{\"image_mean\":[0.5,0.25,0.125],\"image_std\":[1,2,3],\"resample\":3,"
               "\"size\":{\"shortest_edge\":224},\"crop_size\":{\"height\":224,\"width\":224},"
               "\"rescale_factor\":0.00392156862745098,\"do_resize\":true,"
               "\"image_processor_type\":\"CLIPImageProcessor\"}");
    fc_convert_report report = convert(*state, path, &TO_F32);
    assert_int_equal(report.config.recipe, FLATCLIP_RECIPE_HF);
    expect_text(report.recipe, "hf: preprocessor_config.json");
    assert_true(report.config.mean[1] == 0.25f && report.config.std[2] == 3);
    write_text(*state, "preprocessor_config.json", "{\"size\":224,\"crop_size\":224}"); /* old */
    report = convert(*state, path, &TO_F32);
    assert_int_equal(report.config.recipe, FLATCLIP_RECIPE_HF);
    assert_true(report.config.mean[0] == 0.48145466f);
}

static void the_locale_of_the_program_changes_no_number(void **state)
{
    static const char *const with_comma[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8",
                                              "pl_PL.UTF-8", "es_ES.UTF-8", "de_DE" };
    char path[PATH_MAX];
    size_t i = 0;
    while (i < 6 && !setlocale(LC_NUMERIC, with_comma[i]))
        i++;
    if (i == 6)
        skip(); /* none is installed here */
    place(*state, 1, path);
    write_text(*state, "config.json", HF("\"layer_norm_eps\":1e-05"));
    write_text(*state, "preprocessor_config.json",
               "{\"image_mean\":[0.5,0.25,0.125],\"rescale_factor\":0.00392156862745098}");
    const fc_convert_report report = convert(*state, path, &TO_F32);
    setlocale(LC_NUMERIC, "C");
    assert_true(report.config.mean[0] == 0.5f && report.config.mean[2] == 0.125f);
}

/* -- Bad sources ----------------------------------------------------------------------------- */

static void models_that_cannot_be_run_are_refused_by_name(void **state)
{
    static const struct {
        const char *source;
        rename_fn *rename_tensor;
        const char *extra, *says;
    } bad[] = {
        { "open_clip_model", to_resnet, NULL, "a ResNet image tower" },
        { "open_clip_model", to_timm, NULL, "a timm image tower" },
        { "open_clip_model", keep_name, "visual.attn_pool.query", "attentional pooler" },
        { "open_clip_model", keep_name, "text.transformer.x", "CustomTextCLIP" },
        { "hf/model", keep_name, "logit_bias", "a SigLIP model" },
        { "hf/model", keep_name, "vision_model.head.probe", "a SigLIP model" },
        { "open_clip_model", keep_name, "classifier.weight", "tensor classifier.weight does not" },
        { "open_clip_model", add_module, "other.context_length", "other.context_length does not" },
        { "open_clip_model", keep_name, "b.visual.conv1.weight", "two image towers" },
        { "hf/model", drop_projection, NULL, "tensor visual_projection.weight is missing" },
        { "hf/model", drop_value_bias, NULL,
          "tensor vision_model.encoder.layers.0.self_attn.v_proj.bias is missing" },
        { "open_clip_model", drop_text_layers, NULL, "no layers of a text tower" },
        { "open_clip_model", swap_biases, NULL, "ln_1.bias has shape [256], expected [64]" },
    };
    char path[PATH_MAX], source[PATH_MAX];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(source, sizeof source, CHECKPOINTS "%s.safetensors", bad[i].source);
        rewrite(*state, source, "bad.safetensors", bad[i].rename_tensor, bad[i].extra, path);
        expect_refusal(*state, path, &QUICK, FLATCLIP_ERR_FORMAT, bad[i].says);
    }
    expect_refusal(*state, "tests/data/image_tiny.safetensors", &QUICK, FLATCLIP_ERR_FORMAT,
                   "no CLIP image tower");
}

static void the_source_is_never_overwritten(void **state)
{
    char path[PATH_MAX], link_path[PATH_MAX];
    flatclip_error err;
    place(*state, 0, path);
    assert_int_equal(fc_convert(path, &QUICK, path, NULL, &err), FLATCLIP_ERR_ARGUMENT);
    expect_text(err.message, "is the source itself");
    assert_int_equal(symlink(path, temp_path(*state, "link", link_path)), 0);
    assert_int_equal(fc_convert(path, &QUICK, link_path, NULL, &err), FLATCLIP_ERR_ARGUMENT);
    assert_string_equal(convert(*state, path, &QUICK).config.weights_sha256, MICRO);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_temp_folder, remove_temp_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(every_layout_gives_the_same_weights),
        IN_FOLDER(what_is_left_out_is_reported),
        IN_FOLDER(a_configuration_of_another_checkpoint_is_not_believed),
        IN_FOLDER(positions_of_another_grid_are_resampled_only_when_asked),
        IN_FOLDER(types_are_kept_or_changed_as_asked),
        IN_FOLDER(without_a_configuration_the_activation_must_be_given),
        IN_FOLDER(a_prefix_is_stripped_and_what_holds_no_weights_is_left_out),
        IN_FOLDER(a_model_of_images_alone_is_converted),
        IN_FOLDER(a_model_file_of_ours_can_change_its_type),
        IN_FOLDER(a_name_that_json_cannot_hold_is_made_readable),
        IN_FOLDER(open_clip_configurations_are_obeyed_or_refused),
        IN_FOLDER(hugging_face_configurations_are_obeyed_or_refused),
        IN_FOLDER(a_preprocessor_decides_recipe_mean_and_std),
        IN_FOLDER(the_locale_of_the_program_changes_no_number),
        IN_FOLDER(models_that_cannot_be_run_are_refused_by_name),
        IN_FOLDER(the_source_is_never_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
