/* weight_source.c and what it opens: kinds are told by content, tensors read the same from every
 * container and through every view, and damaged or foreign files are refused by name. */
#define _GNU_SOURCE
#include "tests/zip_builder.h"

#include "tests/header_entry.h"
#include "tests/temp_folder.h"
#include "tests/torch_builder.h"
#include "weights_tools/weight_source.h"

#define CHECKPOINTS "tests/data/checkpoints/"

/* -- Helpers --------------------------------------------------------------------------------- */

static fc_weight_source *open_good(const char *path)
{
    fc_weight_source *source;
    flatclip_error err;
    if (fc_weight_source_open(path, &source, &err) != FLATCLIP_OK)
        fail_msg("%s", err.message);
    return source;
}

static void expect_refusal(const char *path, flatclip_status expected, const char *says)
{
    fc_weight_source *source;
    flatclip_error err;
    const flatclip_status status = fc_weight_source_open(path, &source, &err);
    assert_null(source);
    if (status != expected || !strstr(err.message, says))
        fail_msg("%s: %s: \"%s\", expected %s: \"%s\"", path, flatclip_status_name(status),
                 err.message, flatclip_status_name(expected), says);
}

static const char *write_bytes(const temp_folder *folder, const char *name, const void *data,
                               size_t bytes, char path[PATH_MAX])
{
    FILE *file = fopen(temp_path(folder, name, path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static unsigned char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*bytes + 1);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

/* Reads a tensor, and fails the test if it cannot be. */
static void read_all(const fc_weight_source *source, const char *name, float *out, size_t count)
{
    flatclip_error err;
    const size_t index = fc_weight_source_find(source, name);
    assert_true(index < source->count);
    assert_int_equal(source->at(source, index)->count, count);
    if (source->read(source, source->at(source, index), 0, count, out, &err) != FLATCLIP_OK)
        fail_msg("%s", err.message);
}

static void expect_unreadable(const fc_weight_source *source, const char *name, const char *says)
{
    float value;
    flatclip_error err;
    const size_t index = fc_weight_source_find(source, name);
    assert_true(index < source->count);
    assert_int_not_equal(source->read(source, source->at(source, index), 0, 1, &value, &err),
                         FLATCLIP_OK);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}

/* -- Torch files ----------------------------------------------------------------------------- */

/* A 2 x 3 matrix of float32 in four views of the storage 0 1 2 3 4 5 6 7. */
static const char *const VIEW_NAMES[] = { "plain", "transposed", "broadcast", "column", "empty" };
static const tensor_builder VIEWS[] = {
    { "FloatStorage", "0", 8, 1, 2, { 2, 3 }, { 3, 1 } },
    { "FloatStorage", "0", 8, 0, 2, { 3, 2 }, { 1, 3 } },
    { "FloatStorage", "0", 8, 7, 2, { 2, 2 }, { 0, 0 } },
    { "FloatStorage", "0", 8, 2, 1, { 2 }, { 4 } },
    { "FloatStorage", "0", 8, 0, 2, { 0, 3 }, { 3, 1 } },
};
enum { VIEW_COUNT = sizeof VIEWS / sizeof *VIEWS };
static const float STORED[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static void expect_views(const fc_weight_source *source)
{
    static const float expected[][6] = {
        { 1, 2, 3, 4, 5, 6 }, { 0, 3, 1, 4, 2, 5 }, { 7, 7, 7, 7 }, { 2, 6 },
    };
    static const size_t count[] = { 6, 6, 4, 2 };
    float values[6], one;
    flatclip_error err;
    assert_int_equal(source->count, VIEW_COUNT);
    for (size_t i = 0; i < 4; i++) {
        read_all(source, VIEW_NAMES[i], values, count[i]);
        assert_memory_equal(values, expected[i], count[i] * sizeof *values);
        const fc_tensor *tensor = source->at(source, fc_weight_source_find(source, VIEW_NAMES[i]));
        for (uint64_t k = 0; k < count[i]; k++) { /* and element by element */
            assert_int_equal(source->read(source, tensor, k, 1, &one, &err), FLATCLIP_OK);
            assert_true(one == expected[i][k]);
        }
        assert_int_equal(source->read(source, tensor, count[i], 1, &one, &err),
                         FLATCLIP_ERR_ARGUMENT);
    }
    read_all(source, "empty", values, 0);
}

static void archive_of(zip_builder *zip, const pickle_builder *pickle)
{
    zip_builder_add(zip, "m/data.pkl", pickle->data, pickle->bytes);
    zip_builder_add(zip, "m/byteorder", "little", 6);
}

static void views_read_the_same_stored_deflated_and_legacy(void **state)
{
    char path[PATH_MAX];
    pickle_builder pickle = { .bytes = 0 };
    pickle_state(&pickle, VIEW_NAMES, VIEWS, VIEW_COUNT, 0);
    for (int deflated = 0; deflated < 2; deflated++) {
        zip_builder zip;
        zip_builder_start_torch(&zip);
        zip.deflated = deflated;
        archive_of(&zip, &pickle);
        zip_builder_add(&zip, "m/data/0", STORED, sizeof STORED);
        zip_builder_finish(&zip);
        zip_builder_save(&zip, temp_path(*state, "a.pt", path));
        zip_builder_free(&zip);
        fc_weight_source *source = open_good(path);
        expect_views(source);
        fc_weight_source_close(source);
    }
    pickle_builder legacy = { .bytes = 0 };
    PICKLE_PUT(&legacy, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.");
    PICKLE_PUT(&legacy, "\x80\x02}");
    pickle_text(&legacy, "little_endian");
    PICKLE_PUT(&legacy, "\x88s.");
    pickle_state(&legacy, VIEW_NAMES, VIEWS, VIEW_COUNT, 1);
    PICKLE_PUT(&legacy, "\x80\x02]");
    pickle_text(&legacy, "0");
    PICKLE_PUT(&legacy, "a.\x08\0\0\0\0\0\0\0");
    pickle_put(&legacy, STORED, sizeof STORED);
    fc_weight_source *source = open_good(write_bytes(*state, "b.pt", legacy.data, legacy.bytes,
                                                     path));
    expect_views(source);
    fc_weight_source_close(source);
    legacy.data[legacy.bytes - sizeof STORED - 8] = 7; /* the count of elements */
    expect_refusal(write_bytes(*state, "b.pt", legacy.data, legacy.bytes, path),
                   FLATCLIP_ERR_FORMAT, "storage 0 has 7 elements");
}

static void storages_must_be_there_whole_and_undamaged(void **state)
{
    static const struct {
        const char *name;
        size_t bytes;
        int damaged;
        const char *says;
    } bad[] = {
        { "m/data/1", 32, 0, "storage 0 is missing" },
        { "m/data/0", 28, 0, "storage 0 has 28 bytes, expected 32" },
        { "m/data/0", 32, 1, "has checksum" },
    };
    char path[PATH_MAX];
    pickle_builder pickle = { .bytes = 0 };
    pickle_state(&pickle, VIEW_NAMES, VIEWS, VIEW_COUNT, 0);
    for (size_t i = 0; i < 2 * (sizeof bad / sizeof *bad); i++) {
        zip_builder zip;
        zip_builder_start_torch(&zip);
        archive_of(&zip, &pickle);
        zip.deflated = i % 2;
        zip_builder_add(&zip, bad[i / 2].name, STORED, bad[i / 2].bytes)->crc32 ^=
            (uint32_t)bad[i / 2].damaged;
        zip_builder_finish(&zip);
        zip_builder_save(&zip, temp_path(*state, "a.pt", path));
        zip_builder_free(&zip);
        fc_weight_source *source = open_good(path);
        expect_unreadable(source, "plain", bad[i / 2].says);
        expect_unreadable(source, "transposed", bad[i / 2].says);
        fc_weight_source_close(source);
    }
}

static void archives_that_torch_did_not_write_are_refused(void **state)
{
    static const struct {
        const char *first, *second, *byte_order, *says;
    } bad[] = {
        { "data.pkl", "m/x", NULL, "zip archive without data.pkl" },
        { "m/n/data.pkl", "m/x", NULL, "zip archive without data.pkl" },
        { "word/document.xml", "m/x", NULL, "zip archive without data.pkl" },
        { "m/data.pkl", "n/data.pkl", NULL, "holds several pickles" },
        { "m/data.pkl", "m/byteorder", "big", "big-endian" },
    };
    char path[PATH_MAX];
    pickle_builder pickle = { .bytes = 0 };
    pickle_state(&pickle, VIEW_NAMES, VIEWS, VIEW_COUNT, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zip_builder zip;
        zip_builder_start_torch(&zip);
        zip_builder_add(&zip, bad[i].first, pickle.data, pickle.bytes);
        if (bad[i].byte_order)
            zip_builder_add(&zip, bad[i].second, bad[i].byte_order, strlen(bad[i].byte_order));
        else
            zip_builder_add(&zip, bad[i].second, pickle.data, pickle.bytes);
        zip_builder_finish(&zip);
        zip_builder_save(&zip, temp_path(*state, "a.pt", path));
        zip_builder_free(&zip);
        expect_refusal(path, FLATCLIP_ERR_FORMAT, bad[i].says);
    }
}

/* Nothing in a checkpoint can run: what would is named, and its effect does not come about. */
static void a_pickle_that_calls_a_program_is_refused_and_runs_nothing(void **state)
{
    char path[PATH_MAX], trace[PATH_MAX];
    const char *const callers[] = { "posix\nsystem\n", "os\nsystem\n", "builtins\nexec\n",
                                    "subprocess\nPopen\n", "torch\nload\n" };
    temp_path(*state, "trace", trace);
    for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
        char command[PATH_MAX + 16], says[64];
        pickle_builder pickle = { .bytes = 0 };
        snprintf(command, sizeof command, "touch %s", trace);
        snprintf(says, sizeof says, "%s", callers[i]);
        *strchr(says, '\n') = '.';
        *strchr(says, '\n') = '\0';
        PICKLE_PUT(&pickle, "\x80\x02}");
        pickle_text(&pickle, "a");
        PICKLE_PUT(&pickle, "c");
        pickle_put(&pickle, callers[i], strlen(callers[i]));
        pickle_text(&pickle, command);
        PICKLE_PUT(&pickle, "\x85Rs.");
        zip_builder zip;
        zip_builder_start_torch(&zip);
        archive_of(&zip, &pickle);
        zip_builder_finish(&zip);
        zip_builder_save(&zip, temp_path(*state, "a.pt", path));
        zip_builder_free(&zip);
        expect_refusal(path, FLATCLIP_ERR_FORMAT, says);
        assert_int_equal(access(trace, F_OK), -1);
    }
}

/* Every file of torch, cut at every 1,000th byte: an error, and no more memory than the file. */
static void a_truncated_file_is_an_error_at_every_length(void **state)
{
    static const char *const names[] = { "openai_jit_fp16.pt", "openai_state_legacy.pt",
                                         "hf/pytorch_model.bin", "open_clip_model.safetensors" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t bytes;
        char source_path[PATH_MAX];
        snprintf(source_path, sizeof source_path, CHECKPOINTS "%s", names[i]);
        unsigned char *data = read_file(source_path, &bytes);
        write_bytes(*state, "cut", data, bytes, path);
        for (size_t length = bytes - 1; length > 1000; length -= 1000) {
            fc_weight_source *source;
            flatclip_error err;
            assert_int_equal(truncate(path, (off_t)length), 0);
            if (fc_weight_source_open(path, &source, &err) == FLATCLIP_OK)
                fail_msg("%s was accepted with %zu of %zu bytes", names[i], length, bytes);
            assert_true(err.status == FLATCLIP_ERR_FORMAT && err.message[0]);
        }
        free(data);
    }
}

/* -- Shards ---------------------------------------------------------------------------------- */

/* Copies the tensors of source whose index is part modulo 2 to name in folder, and adds them to
 * map. */
static void write_shard(const temp_folder *folder, const char *source, const char *name, int part,
                        cJSON *map)
{
    char path[PATH_MAX];
    size_t bytes;
    uint64_t used = 0;
    fc_safetensors *file;
    flatclip_error err;
    cJSON *root = cJSON_CreateObject();
    unsigned char *all = read_file(source, &bytes), *data = malloc(bytes);
    assert_int_equal(fc_safetensors_open(source, &file, &err), FLATCLIP_OK);
    for (size_t i = (size_t)part; i < fc_safetensors_count(file); i += 2) {
        const fc_tensor *tensor = fc_safetensors_at(file, i);
        memcpy(data + used, all + tensor->offset, tensor->bytes);
        used = add_header_entry(root, tensor->name, fc_dtype_name(tensor->dtype), tensor->dim,
                                tensor->rank, used, tensor->bytes);
        cJSON_AddStringToObject(map, tensor->name, name);
    }
    char *header = cJSON_PrintUnformatted(root);
    const uint64_t header_bytes = strlen(header);
    FILE *out = fopen(temp_path(folder, name, path), "wb");
    fwrite(&header_bytes, 8, 1, out);
    fwrite(header, 1, header_bytes, out);
    fwrite(data, 1, used, out);
    assert_int_equal(fclose(out), 0);
    fc_safetensors_close(file);
    cJSON_Delete(root);
    free(header);
    free(all);
    free(data);
}

static void write_index(const temp_folder *folder, const cJSON *map)
{
    char path[PATH_MAX];
    cJSON *root = cJSON_CreateObject();
    cJSON_AddItemToObject(root, "weight_map", cJSON_Duplicate(map, 1));
    char *text = cJSON_Print(root);
    write_bytes(folder, "model.safetensors.index.json", text, strlen(text), path);
    free(text);
    cJSON_Delete(root);
}

static void shards_are_one_source(void **state)
{
    static const char *const shards[] = { "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors" };
    const temp_folder *folder = *state;
    const char *whole = CHECKPOINTS "hf/model.safetensors";
    char path[PATH_MAX];
    cJSON *map = cJSON_CreateObject();
    for (int i = 0; i < 2; i++)
        write_shard(folder, whole, shards[i], i, map);
    write_index(folder, map);
    fc_weight_source *one = open_good(whole), *several = open_good(folder->path);
    assert_int_equal(one->count, several->count);
    for (size_t i = 0; i < one->count; i++) {
        const fc_tensor *tensor = one->at(one, i);
        float *a = malloc(2 * tensor->count * sizeof *a), *b = a + tensor->count;
        read_all(one, tensor->name, a, tensor->count);
        read_all(several, tensor->name, b, tensor->count);
        assert_memory_equal(a, b, tensor->count * sizeof *a);
        free(a);
    }
    assert_non_null(strstr(fc_weight_source_file(several, 1), shards[1]));
    assert_null(fc_weight_source_file(several, 2));
    fc_weight_source_close(one);
    fc_weight_source_close(several);

    static const char *const bad[][3] = { /* the file of one tensor in the map, and what is said */
        { "logit_scale", "model-00003.safetensors", "No such file" },
        { "logit_scale", "../model.safetensors", "expected a file of the same folder" },
        { "logit_scale", "model.safetensors.index.json", "is an index itself" },
        { "nonesuch", "model-00001-of-00002.safetensors", "says that tensor nonesuch is in" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cJSON *changed = cJSON_Duplicate(map, 1);
        cJSON_DeleteItemFromObject(changed, bad[i][0]);
        cJSON_AddStringToObject(changed, bad[i][0], bad[i][1]);
        write_index(folder, changed);
        cJSON_Delete(changed);
        expect_refusal(folder->path, i ? FLATCLIP_ERR_FORMAT : FLATCLIP_ERR_IO, bad[i][2]);
    }
    write_shard(folder, whole, shards[1], 0, map); /* the same tensors twice */
    write_index(folder, map);
    expect_refusal(folder->path, FLATCLIP_ERR_FORMAT, "twice");
    write_bytes(folder, "model.safetensors.index.json", "{}", 2, path);
    expect_refusal(folder->path, FLATCLIP_ERR_FORMAT, "has no weight_map");
    cJSON_Delete(map);
}

/* -- Kinds ----------------------------------------------------------------------------------- */

static void files_of_another_kind_are_refused_by_name(void **state)
{
    static const struct {
        const char *data;
        size_t bytes;
        const char *says;
    } bad[] = {
#define BAD(literal, says) { literal, sizeof(literal) - 1, says }
        BAD("", "is empty"),
        BAD("PK\3\4 and so on, but no archive", "does not end as a zip archive"),
        BAD("\x80\x02]q\0.", "is a Python pickle, but torch.save did not write it"),
        BAD("\x80\x02\x8a", "ends"),
        BAD("version https://git-lfs.github.com/spec/v1\noid sha256:00", "run: git lfs pull"),
        BAD("<!DOCTYPE html><html></html>", "a web page"),
        BAD("GGUF\3\0\0\0\0\0\0\0", "a GGUF model"),
        BAD("\x89HDF\r\n\x1a\n\0\0", "an HDF5 file"),
        BAD("\x1f\x8b\x08\0\0\0\0\0\0", "compressed with gzip"),
        BAD("\x08\x07\x12\x07pytorch", "an ONNX model"),
        BAD("camera.jpg\ncat.jpg\n", "not a .safetensors file"),
    };
    char path[PATH_MAX], tar[512] = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_refusal(write_bytes(*state, "bad", bad[i].data, bad[i].bytes, path),
                       FLATCLIP_ERR_FORMAT, bad[i].says);
    memcpy(tar + 257, "ustar", 5);
    expect_refusal(write_bytes(*state, "bad", tar, sizeof tar, path), FLATCLIP_ERR_FORMAT,
                   "is a tar archive");
    expect_refusal(temp_path(*state, "absent", path), FLATCLIP_ERR_IO, "No such file");
}

static void a_folder_is_searched_for_usual_names(void **state)
{
    const temp_folder *folder = *state;
    char path[PATH_MAX];
    size_t bytes;
    expect_refusal(folder->path, FLATCLIP_ERR_IO, "holds no weights under a usual name");
    unsigned char *data = read_file(CHECKPOINTS "hf/pytorch_model.bin", &bytes);
    write_bytes(folder, "pytorch_model.bin", data, bytes, path);
    fc_weight_source *source = open_good(folder->path);
    assert_string_equal(source->path, path);
    fc_weight_source_close(source);
    free(data);
    data = read_file(CHECKPOINTS "hf/model.safetensors", &bytes);
    write_bytes(folder, "model.safetensors", data, bytes, path); /* comes first */
    source = open_good(folder->path);
    assert_string_equal(source->path, path);
    fc_weight_source_close(source);
    free(data);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_temp_folder, remove_temp_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(views_read_the_same_stored_deflated_and_legacy),
        IN_FOLDER(storages_must_be_there_whole_and_undamaged),
        IN_FOLDER(archives_that_torch_did_not_write_are_refused),
        IN_FOLDER(a_pickle_that_calls_a_program_is_refused_and_runs_nothing),
        IN_FOLDER(a_truncated_file_is_an_error_at_every_length),
        IN_FOLDER(shards_are_one_source),
        IN_FOLDER(files_of_another_kind_are_refused_by_name),
        IN_FOLDER(a_folder_is_searched_for_usual_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
