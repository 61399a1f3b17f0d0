/* synth.c and model_writer.c: the reference's hashes and values, little memory, and nothing left
 * behind when writing fails. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>

#include "tests/temp_folder.h"
#include "weights_tools/model_writer.h"
#include "weights_tools/synth.h"

enum { MIB = 1 << 20 };

/* -- The reference --------------------------------------------------------------------------- */

/* sha256 of all tensors of the file as float32, in the order of the configuration, by reading. */
static void hash_file(const fc_safetensors *file, const fc_clip_config *config, char hex[65])
{
    static float values[1 << 16];
    unsigned char digest[32];
    flatclip_error err;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    for (int i = 0; i < fc_clip_tensor_count(config); i++) {
        fc_tensor_spec spec;
        fc_clip_tensor_spec(config, i, &spec);
        const fc_tensor *tensor = fc_safetensors_find(file, spec.name);
        for (uint64_t first = 0; first < tensor->count; first += 1 << 16) {
            const uint64_t left = tensor->count - first, count = left < 1 << 16 ? left : 1 << 16;
            assert_int_equal(fc_safetensors_read_f32(file, tensor, first, count, values, &err), 0);
            EVP_DigestUpdate(hash, values, count * sizeof *values);
        }
    }
    EVP_DigestFinal_ex(hash, digest, NULL);
    EVP_MD_CTX_free(hash);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static fc_safetensors *open_model(const char *path, fc_clip_config *config)
{
    fc_safetensors *file;
    flatclip_error err;
    if (fc_safetensors_open(path, &file, &err) || fc_clip_config_read(file, config, &err) ||
        fc_clip_check_tensors(file, config, &err))
        fail_msg("%s", err.message);
    return file;
}

/* Writes, reads back, and compares both the hash in the file and the hash of what it holds. */
static void expect_hash(const temp_folder *folder, const char *name, fc_dtype dtype,
                        const char *expected)
{
    char path[PATH_MAX], hex[65];
    fc_clip_config config;
    flatclip_error err;
    temp_path(folder, "m.safetensors", path);
    if (fc_synth_write(name, 1, dtype, path, &err))
        fail_msg("%s", err.message);
    fc_safetensors *file = open_model(path, &config);
    hash_file(file, &config, hex);
    assert_string_equal(config.weights_sha256, expected);
    assert_string_equal(hex, expected);
    fc_safetensors_close(file);
}

static void small_models_equal_the_reference(void **state)
{
    expect_hash(*state, "micro", FC_F32,
                "7228987683a38e223515706651e7fa3bb12199b5c1ee9dacb0a4c1df167efbae");
    expect_hash(*state, "tiny", FC_F32,
                "e1ed9730c9503b4c27b76c469ea058b673629142bca4ab73007b6700d0badeb8");
    expect_hash(*state, "tiny-b16", FC_F32,
                "5b5acd3c9052a1444e45b53abd13d7ec21402634eb4fef72f371e1d517ca0cac");
    expect_hash(*state, "tiny-l14-336", FC_F32,
                "3a01dd94760ec248ed6f340a116373720e0ecd79ea6bfb49d29238251562075f");
}

/* Stored as F16, which is exact, to spare the disk; its memory is that of any writing. */
static void vit_b_32_equals_the_reference_in_little_memory(void **state)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    expect_hash(*state, "vitb32", FC_F16,
                "9c0e888c39d9135b9dd4ad723ce3c864cd34ae2e961ca6d4b501cd93bb8e043e");
    getrusage(RUSAGE_SELF, &after);
    assert_true((after.ru_maxrss - before.ru_maxrss) * 1024L < 16L * MIB);
}

static void a_half_precision_file_holds_the_same_values(void **state)
{
    expect_hash(*state, "micro", FC_F16,
                "7228987683a38e223515706651e7fa3bb12199b5c1ee9dacb0a4c1df167efbae");
    expect_hash(*state, "micro", FC_BF16, /* rounded: the hash is of what is stored */
                "eb2f38164b041eb046786ed0055b754a87c667a1576102a96aea591d20202082");
}

static void first_values_are_the_published_ones(void **state)
{
    static const struct {
        const char *name;
        uint64_t index;
        float value;
    } expected[] = {
        { "visual.class_embedding", 0, 0.0565185546875f },
        { "visual.class_embedding", 127, 0.509765625f },
        { "visual.conv1.weight", 1, 0.004726409912109375f },
        { "transformer.resblocks.1.mlp.c_proj.weight", 2, -0.033660888671875f },
        { "ln_final.bias", 63, -0.258544921875f },
        { "logit_scale", 0, 4.6015625f },
        { "visual.ln_pre.bias", 33, -9 },
        { "visual.ln_pre.bias", 92, 12 },
        { "visual.transformer.resblocks.1.mlp.c_proj.bias", 92, 20 },
        { "transformer.resblocks.0.mlp.c_proj.bias", 33, 15 },
    };
    char path[PATH_MAX];
    fc_clip_config config;
    flatclip_error err;
    temp_path(*state, "tiny.safetensors", path);
    assert_int_equal(fc_synth_write("tiny", 1, FC_F32, path, &err), FLATCLIP_OK);
    fc_safetensors *file = open_model(path, &config);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        float value;
        const fc_tensor *tensor = fc_safetensors_find(file, expected[i].name);
        assert_int_equal(fc_safetensors_read_f32(file, tensor, expected[i].index, 1, &value, &err),
                         FLATCLIP_OK);
        assert_true(value == expected[i].value);
    }
    assert_string_equal(config.source, "synth tiny seed 1");
    fc_safetensors_close(file);
}

static void another_seed_gives_another_model(void **state)
{
    char path[PATH_MAX];
    fc_clip_config one, two;
    flatclip_error err;
    temp_path(*state, "m.safetensors", path);
    assert_int_equal(fc_synth_write("micro", 1, FC_F32, path, &err), FLATCLIP_OK);
    fc_safetensors_close(open_model(path, &one));
    assert_int_equal(fc_synth_write("micro", UINT64_MAX, FC_F32, path, &err), FLATCLIP_OK);
    fc_safetensors_close(open_model(path, &two));
    assert_string_not_equal(one.weights_sha256, two.weights_sha256);
    assert_string_equal(two.source, "synth micro seed 18446744073709551615");
}

/* -- Failing --------------------------------------------------------------------------------- */

static void an_unknown_name_lists_the_known_ones(void **state)
{
    fc_clip_config config;
    flatclip_error err;
    (void)state;
    assert_int_equal(fc_synth_config("vitb33", &config, &err), FLATCLIP_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "vitb33"));
    assert_non_null(strstr(err.message, "vitb32, tiny, tiny-b16, tiny-l14-336 or micro"));
}

static void an_impossible_type_is_refused(void **state)
{
    char path[PATH_MAX];
    flatclip_error err;
    assert_int_equal(fc_synth_write("micro", 1, FC_I8, temp_path(*state, "m", path), &err),
                     FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(count_temp_files(*state), 0);
}

static void a_folder_that_cannot_be_written_is_named(void **state)
{
    char path[PATH_MAX];
    flatclip_error err;
    assert_int_equal(fc_synth_write("micro", 1, FC_F32,
                                    temp_path(*state, "absent/m.safetensors", path), &err),
                     FLATCLIP_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "No such file"));
    /* A target that no file can replace. */
    assert_int_equal(mkdir(temp_path(*state, "folder", path), 0700), 0);
    assert_int_equal(fc_synth_write("micro", 1, FC_F32, path, &err), FLATCLIP_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(count_temp_files(*state), 1);
    rmdir(path);
}

/* The limit on a file's size stands in for a full disk. */
static void a_disk_that_is_full_leaves_the_old_file_alone(void **state)
{
    char path[PATH_MAX];
    struct rlimit old, small;
    flatclip_error err;
    FILE *file = fopen(temp_path(*state, "m.safetensors", path), "wb");
    fwrite("old", 1, 3, file);
    fclose(file);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 100 * 1000; /* more than the header, less than the model */
    setrlimit(RLIMIT_FSIZE, &small);
    const flatclip_status status = fc_synth_write("micro", 1, FC_F32, path, &err);
    setrlimit(RLIMIT_FSIZE, &old);

    struct stat info;
    assert_int_equal(status, FLATCLIP_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(count_temp_files(*state), 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 3);
}

static void a_new_file_has_the_permissions_of_any_other(void **state)
{
    char path[PATH_MAX];
    struct stat info;
    flatclip_error err;
    const mode_t old = umask(027);
    assert_int_equal(fc_synth_write("micro", 1, FC_F32, temp_path(*state, "m", path), &err), 0);
    umask(old);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

/* Opens a writer of the micro model in one type. */
static fc_model_writer *open_writer(const char *path, fc_dtype dtype)
{
    fc_clip_config config;
    fc_dtype dtypes[64];
    fc_model_writer *writer;
    flatclip_error err;
    for (int i = 0; i < 64; i++)
        dtypes[i] = dtype;
    assert_int_equal(fc_synth_config("micro", &config, &err), FLATCLIP_OK);
    strcpy(config.source, "\xff not UTF-8 \" weights_sha256");
    if (fc_model_writer_open(path, &config, dtypes, NULL, &writer, &err))
        fail_msg("%s", err.message);
    return writer;
}

static void a_device_is_not_replaced_by_a_file(void **state)
{
    (void)state;
    flatclip_error err;
    struct stat info;
    assert_int_equal(fc_synth_write("micro", 1, FC_F32, "/dev/null", &err), FLATCLIP_ERR_IO);
    assert_non_null(strstr(err.message, "/dev/null"));
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

/* Where the system has files without names; elsewhere a named one would be left. */
static void a_killed_writer_leaves_nothing(void **state)
{
    char path[PATH_MAX];
    temp_path(*state, "killed.safetensors", path);
    const int probe = open(((temp_folder *)*state)->path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (probe < 0)
        skip();
    close(probe);

    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(fc_synth_write("vitb32", 1, FC_F32, path, NULL) != FLATCLIP_OK);
    usleep(100000); /* far less than 600 MB take */
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(count_temp_files(*state), 0);
}

static void values_that_a_file_cannot_hold_are_refused_by_name(void **state)
{
    char path[PATH_MAX];
    float values[64] = { 0 };
    flatclip_error err;
    temp_path(*state, "m", path);
    fc_model_writer *writer = open_writer(path, FC_F16);
    values[5] = NAN;
    assert_int_equal(fc_model_writer_append(writer, values, 64, &err), FLATCLIP_ERR_FORMAT);
    assert_non_null(strstr(err.message, "visual.class_embedding: element 5 is not"));
    values[5] = -65520;
    assert_int_equal(fc_model_writer_append(writer, values, 64, &err), FLATCLIP_ERR_FORMAT);
    assert_non_null(strstr(err.message, "visual.class_embedding has values that F16"));
    values[5] = -65504;
    assert_int_equal(fc_model_writer_append(writer, values, 64, &err), FLATCLIP_OK);
    fc_model_writer_abandon(writer);
    assert_int_equal(count_temp_files(*state), 0);
}

static void too_many_or_too_few_values_make_no_file(void **state)
{
    char path[PATH_MAX];
    const float values[65] = { 0 };
    flatclip_error err;
    temp_path(*state, "m", path);
    fc_model_writer *writer = open_writer(path, FC_F32);
    assert_int_equal(fc_model_writer_append(writer, values, 65, &err), FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(fc_model_writer_append(writer, values, 60, &err), FLATCLIP_OK);
    assert_int_equal(fc_model_writer_append(writer, values, 5, &err), FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(fc_model_writer_append(writer, values, 4, &err), FLATCLIP_OK);
    assert_int_equal(fc_model_writer_commit(writer, NULL, &err), FLATCLIP_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "visual.positional_embedding is not complete"));
    assert_int_equal(count_temp_files(*state), 0);
    fc_model_writer_abandon(NULL);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_temp_folder, remove_temp_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(small_models_equal_the_reference),
        IN_FOLDER(vit_b_32_equals_the_reference_in_little_memory),
        IN_FOLDER(a_half_precision_file_holds_the_same_values),
        IN_FOLDER(first_values_are_the_published_ones),
        IN_FOLDER(another_seed_gives_another_model),
        cmocka_unit_test(an_unknown_name_lists_the_known_ones),
        IN_FOLDER(an_impossible_type_is_refused),
        IN_FOLDER(a_folder_that_cannot_be_written_is_named),
        IN_FOLDER(a_disk_that_is_full_leaves_the_old_file_alone),
        IN_FOLDER(a_new_file_has_the_permissions_of_any_other),
        cmocka_unit_test(a_device_is_not_replaced_by_a_file),
        IN_FOLDER(a_killed_writer_leaves_nothing),
        IN_FOLDER(values_that_a_file_cannot_hold_are_refused_by_name),
        IN_FOLDER(too_many_or_too_few_values_make_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
