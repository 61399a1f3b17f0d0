/* merges.c and its parts: every kind of file gives the same text as the built-in vocabulary, and
 * what is damaged or another tokenizer's is refused by name. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <zlib.h>

#include "tests/temp_folder.h"
#include "weights_tools/merges_parts.h"

/* -- Helpers --------------------------------------------------------------------------------- */

static fc_merges builtin(void)
{
    fc_merges merges;
    flatclip_error err;
    if (fc_merges_builtin(&merges, &err) != FLATCLIP_OK)
        fail_msg("%s", err.message);
    return merges;
}

static void write_file(const temp_folder *folder, const char *name, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    FILE *file = fopen(temp_path(folder, name, path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* What is found beside a checkpoint in the folder must be the built-in text, from that origin. */
static void expect_found(const temp_folder *folder, const char *origin)
{
    char path[PATH_MAX];
    fc_merges found, expected = builtin();
    flatclip_error err;
    if (fc_merges_beside(temp_path(folder, "model.bin", path), &found, &err) != FLATCLIP_OK)
        fail_msg("%s: %s", origin, err.message);
    assert_non_null(strstr(found.origin, origin));
    assert_int_equal(found.bytes, expected.bytes);
    assert_memory_equal(found.text, expected.text, expected.bytes);
    fc_merges_free(&found);
    fc_merges_free(&expected);
}

static void expect_refused(const temp_folder *folder, const char *says)
{
    char path[PATH_MAX];
    fc_merges found;
    flatclip_error err;
    assert_int_equal(fc_merges_beside(temp_path(folder, "model.bin", path), &found, &err),
                     FLATCLIP_ERR_FORMAT);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    assert_null(found.text);
}

/* The vocabulary that merges lead to: {"in": 512, ...}. */
static cJSON *vocabulary_of(const fc_merges *merges)
{
    cJSON *vocabulary = cJSON_CreateObject();
    const char *at = merges->text;
    for (int i = 0; i < FC_CLIP_MERGES; i++) {
        char token[256];
        const size_t length = strcspn(at, "\n"), first = strcspn(at, " ");
        snprintf(token, sizeof token, "%.*s%.*s", (int)first, at, (int)(length - first - 1),
                 at + first + 1);
        cJSON_AddItemToObject(vocabulary, token, cJSON_CreateNumber(512 + i));
        at += length + 1;
    }
    cJSON_AddNumberToObject(vocabulary, "!", 0);
    cJSON_AddNumberToObject(vocabulary, "<|endoftext|>", FC_CLIP_VOCABULARY - 1);
    return vocabulary;
}

static cJSON *tokenizer_of(const fc_merges *merges, int as_pairs)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *model = cJSON_AddObjectToObject(root, "model");
    cJSON_AddStringToObject(model, "type", "BPE");
    cJSON_AddStringToObject(model, "end_of_word_suffix", "</w>");
    cJSON_AddItemToObject(model, "vocab", vocabulary_of(merges));
    cJSON *list = cJSON_AddArrayToObject(model, "merges");
    const char *at = merges->text;
    for (int i = 0; i < FC_CLIP_MERGES; i++) {
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        at += strlen(line) + 1;
        char *space = strchr(line, ' ');
        if (!as_pairs) {
            cJSON_AddItemToArray(list, cJSON_CreateString(line));
            continue;
        }
        *space = '\0';
        const char *parts[2] = { line, space + 1 };
        cJSON_AddItemToArray(list, cJSON_CreateStringArray(parts, 2));
    }
    return root;
}

static void write_json(const temp_folder *folder, const char *name, const cJSON *root)
{
    char *text = cJSON_PrintUnformatted(root);
    write_file(folder, name, text, strlen(text));
    free(text);
}

static void write_gzip(const temp_folder *folder, const char *name, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    gzFile file = gzopen(temp_path(folder, name, path), "wb6");
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

/* -- Good files ------------------------------------------------------------------------------ */

static void the_builtin_merges_are_those_of_openai(void **state)
{
    (void)state;
    fc_merges merges = builtin();
    assert_int_equal(fc_merges_check("built in", merges.text, merges.bytes, NULL), FLATCLIP_OK);
    assert_int_equal(merges.bytes, 524605);
    assert_memory_equal(merges.text, "i n\nt h\na n\nr e\na r\n", 20);
    assert_memory_equal(merges.text + merges.bytes - 12, "jeky ll</w>\n", 12);
    assert_int_equal(crc32_z(0, (const Bytef *)merges.text, merges.bytes), 0xf1e44e3f);
    fc_merges_free(&merges);
}

static void every_kind_of_file_gives_the_same_text(void **state)
{
    const temp_folder *folder = *state;
    fc_merges merges = builtin();
    expect_found(folder, "built in");

    const size_t room = merges.bytes + 4 * FC_CLIP_MERGES;
    char *text = malloc(room);
    int bytes = snprintf(text, room, "\"bpe_simple_vocab_16e6.txt#version: 0.2\n%.*sextra ones\n"
                         "that are not in use\n", (int)merges.bytes, merges.text);
    write_gzip(folder, "bpe_simple_vocab_16e6.txt.gz", text, (size_t)bytes);
    expect_found(folder, "bpe_simple_vocab_16e6.txt.gz");

    bytes = snprintf(text, room, "#version: 0.2\n%.*s", (int)merges.bytes, merges.text);
    write_file(folder, "merges.txt", text, (size_t)bytes);
    expect_found(folder, "merges.txt");
    write_file(folder, "merges.txt", text, (size_t)bytes - 1); /* no newline at the end */
    expect_found(folder, "merges.txt");
    cJSON *vocabulary = vocabulary_of(&merges);
    write_json(folder, "vocab.json", vocabulary);
    expect_found(folder, "merges.txt");
    cJSON_Delete(vocabulary);

    size_t used = 0; /* as Windows has it */
    for (size_t i = 0; i < merges.bytes; i++) {
        if (merges.text[i] == '\n')
            text[used++] = '\r';
        text[used++] = merges.text[i];
    }
    write_file(folder, "merges.txt", text, used);
    expect_found(folder, "merges.txt");

    for (int as_pairs = 0; as_pairs < 2; as_pairs++) {
        cJSON *tokenizer = tokenizer_of(&merges, as_pairs);
        write_json(folder, "tokenizer.json", tokenizer);
        cJSON_Delete(tokenizer);
        expect_found(folder, "tokenizer.json");
    }
    free(text);
    fc_merges_free(&merges);
}

/* -- Bad files ------------------------------------------------------------------------------- */

static void damaged_lines_are_refused(void **state)
{
    const temp_folder *folder = *state;
    fc_merges merges = builtin();
    write_file(folder, "merges.txt", merges.text, merges.bytes / 2);
    expect_refused(folder, "merges.txt: ");
    write_file(folder, "merges.txt", "#version: 0.2\ni n\nt h\n", 22);
    expect_refused(folder, "the merges end in line 3, expected 48894 lines");
    static const struct {
        size_t at;
        char byte;
        const char *says;
    } bad[] = {
        { 1, 'x', "line 1 of" }, { 0, ' ', "line 1 of" }, { 6, ' ', "line 2 of" },
        { 4, '\t', "line 2 of" }, { 8, '\xff', "line 3 of" }, { 10, '\0', "line 3 of" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char before = merges.text[bad[i].at];
        merges.text[bad[i].at] = bad[i].byte;
        write_file(folder, "merges.txt", merges.text, merges.bytes);
        expect_refused(folder, bad[i].says);
        merges.text[bad[i].at] = before;
    }
    flatclip_error err;
    assert_int_equal(fc_merges_check("m", merges.text, merges.bytes - 1, &err),
                     FLATCLIP_ERR_FORMAT);
    fc_merges_free(&merges);
}

static void another_vocabulary_is_refused(void **state)
{
    const temp_folder *folder = *state;
    fc_merges merges = builtin();
    write_file(folder, "merges.txt", merges.text, merges.bytes);
    cJSON *vocabulary = vocabulary_of(&merges);
    cJSON_SetNumberValue(cJSON_GetObjectItem(vocabulary, "in"), 513);
    write_json(folder, "vocab.json", vocabulary);
    expect_refused(folder, "id 513 is \"in\", but merge number 1 makes another token");
    cJSON_DeleteItemFromObject(vocabulary, "in");
    write_json(folder, "vocab.json", vocabulary);
    expect_refused(folder, "48893 of them from merges, expected 49408 and 48894");
    cJSON_AddNumberToObject(vocabulary, "in", 60000);
    write_json(folder, "vocab.json", vocabulary);
    expect_refused(folder, "the id of \"in\" is not a number below 49408");
    write_file(folder, "vocab.json", "[1, 2]", 6);
    expect_refused(folder, "is no JSON object");
    cJSON_Delete(vocabulary);
    fc_merges_free(&merges);
}

static void another_tokenizer_is_refused_by_name(void **state)
{
    static const char *const bad[][2] = {
        { "{", "no valid JSON" },
        { "[]", "end_of_word_suffix is missing" },
        { "{\"model\":{\"type\":\"WordPiece\"}}", "model.type is WordPiece, expected BPE" },
        { "{\"model\":{\"type\":\"Unigram\"}}", "model.type is Unigram" },
        { "{\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":null}}", "end_of_word_suffix" },
        { "{\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"}}", "model.merges" },
        { "{\"model\":{\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[]}}",
          "the merges end in line 1" },
        { "{\"model\":{\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[7]}}",
          "neither a text nor a pair" },
        { "{\"model\":{\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[[\"a\",7]]}}",
          "neither a text nor a pair" },
        { "{\"model\":{\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[\"a b c\"]}}",
          "line 1 of the merges is not two parts" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(*state, "tokenizer.json", bad[i][0], strlen(bad[i][0]));
        expect_refused(*state, bad[i][1]);
    }
}

static void a_bomb_and_a_damaged_archive_are_refused(void **state)
{
    const temp_folder *folder = *state;
    const char *name = "bpe_simple_vocab_16e6.txt.gz";
    const size_t bytes = 40 << 20;
    char *zeros = calloc(1, bytes);
    write_gzip(folder, name, zeros, bytes);
    free(zeros);
    expect_refused(folder, "inflates to over 16 MiB");
    write_file(folder, name, "i n\n", 4);
    expect_refused(folder, "is no gzip file");
    char path[PATH_MAX];
    fc_merges merges = builtin();
    write_gzip(folder, name, merges.text, merges.bytes);
    assert_int_equal(truncate(temp_path(folder, name, path), 100000), 0);
    expect_refused(folder, "not complete");
    fc_merges_free(&merges);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_temp_folder, remove_temp_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_builtin_merges_are_those_of_openai),
        IN_FOLDER(every_kind_of_file_gives_the_same_text),
        IN_FOLDER(damaged_lines_are_refused),
        IN_FOLDER(another_vocabulary_is_refused),
        IN_FOLDER(another_tokenizer_is_refused_by_name),
        IN_FOLDER(a_bomb_and_a_damaged_archive_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
