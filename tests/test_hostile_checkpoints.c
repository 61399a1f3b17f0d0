/* Checkpoints that ask for far more memory than they have bytes, or for far more work: each is
 * refused by name, in a process whose memory is measured. */
#define _GNU_SOURCE
#include "tests/zip_builder.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/temp_folder.h"
#include "tests/torch_builder.h"
#include "weights_tools/convert.h"

enum {
    MOST_MIB = 200,             /* of a process that refuses; sanitizers take more for themselves */
    MOST_SECONDS = 20
};

/* Converts in a child. It must say the text, and take less than the memory and time above. */
static void expect_cheap_refusal(const temp_folder *folder, const char *source, const char *says)
{
    char path[PATH_MAX];
    struct rusage used;
    int status;
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (!child) {
        static const fc_convert_options options = { FC_F32, 0, FLATCLIP_ACTIVATION_QUICKGELU, 0 };
        flatclip_error err = { FLATCLIP_OK, "" };
        alarm(MOST_SECONDS);
        fc_convert(source, &options, temp_path(folder, "out.safetensors", path), NULL, &err);
        _exit(write(pipe_ends[1], err.message, sizeof err.message) != sizeof err.message);
    }
    flatclip_error err = { FLATCLIP_OK, "" };
    close(pipe_ends[1]);
    const ssize_t got = read(pipe_ends[0], err.message, sizeof err.message);
    close(pipe_ends[0]);
    assert_int_equal(wait4(child, &status, 0, &used), child);
    if (got != sizeof err.message || status)
        fail_msg("%s: ended with status %#x", says, status);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (used.ru_maxrss > MOST_MIB * 1024)
        fail_msg("%s: took %ld MiB", says, used.ru_maxrss / 1024);
#endif
}

/* An archive whose data.pkl is that; a storage of 16 float32 lies beside it. */
static const char *write_archive(const temp_folder *folder, const void *pickle, size_t bytes,
                                 uint64_t claimed, char path[PATH_MAX])
{
    static const char zeros[64];
    zip_builder zip;
    zip_builder_start_torch(&zip);
    zip.deflated = claimed != bytes;
    zip_builder_member *member = zip_builder_add(&zip, "m/data.pkl", pickle, bytes);
    member->bytes = claimed;
    member->zip64 = claimed >= UINT32_MAX;
    zip.deflated = 0;
    zip_builder_add(&zip, "m/data/0", zeros, sizeof zeros);
    zip_builder_finish(&zip);
    zip_builder_save(&zip, temp_path(folder, "bomb.pt", path));
    zip_builder_free(&zip);
    return path;
}

static void a_pickle_that_inflates_to_gigabytes_is_refused(void **state)
{
    char path[PATH_MAX];
    const size_t bytes = 40 << 20;
    char *zeros = calloc(1, bytes);
    expect_cheap_refusal(*state, write_archive(*state, zeros, bytes, 40u << 20 | 1, path),
                         "the limit is 33554432");
    expect_cheap_refusal(*state, write_archive(*state, zeros, bytes, UINT64_C(1) << 33, path),
                         "data.pkl");
    expect_cheap_refusal(*state, write_archive(*state, zeros, 1 << 20, 1000, path),
                         "more than the directory says");
    free(zeros);
}

static void a_pickle_of_millions_of_values_is_refused(void **state)
{
    char path[PATH_MAX];
    const size_t bytes = 31 << 20;
    char *pickle = malloc(bytes);
    memset(pickle, ']', bytes);
    memcpy(pickle, "\x80\x02", 2);
    expect_cheap_refusal(*state, write_archive(*state, pickle, bytes, bytes, path),
                         "over 48 MiB");
    FILE *file = fopen(temp_path(*state, "legacy.pt", path), "wb"); /* the same, of old */
    assert_int_equal(fwrite(pickle, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    expect_cheap_refusal(*state, path, "over 48 MiB");
    free(pickle);
}

/* A model whose tensors are as large as they claim to be, over a storage of 64 bytes: strides of 0
 * make it 2^40 elements. */
static void a_tensor_repeated_without_end_is_refused_by_its_shape(void **state)
{
    static const char *const names[] = { "visual.conv1.weight", "visual.positional_embedding",
                                         "visual.proj" };
    static const tensor_builder tensors[] = {
        { "FloatStorage", "0", 16, 0, 4, { 1 << 20, 3, 32, 32 }, { 0, 0, 0, 0 } },
        { "FloatStorage", "0", 16, 0, 2, { 50, 1 << 20 }, { 0, 0 } },
        { "FloatStorage", "0", 16, 0, 2, { 1 << 20, 1 << 20 }, { 0, 0 } },
    };
    char path[PATH_MAX];
    pickle_builder pickle = { .bytes = 0 };
    pickle_state(&pickle, names, tensors, 3, 0);
    expect_cheap_refusal(*state, write_archive(*state, pickle.data, pickle.bytes, pickle.bytes,
                                               path), "bomb.pt");
}

static void an_index_of_hundreds_of_thousands_of_tensors_is_refused(void **state)
{
    char path[PATH_MAX];
    FILE *file = fopen(temp_path(*state, "a.index.json", path), "wb");
    fputs("{\"weight_map\":{", file);
    for (int i = 0; i < 150000; i++)
        fprintf(file, "%s\"%d\":\"f%d\"", i ? "," : "", i, i);
    fputs("}}", file);
    assert_int_equal(fclose(file), 0);
    expect_cheap_refusal(*state, path, "lists 150000 files, at most 1000");
}

/* Directories of many members that share one header, as the most efficient bombs have. */
static void members_that_share_their_bytes_are_refused(void **state)
{
    char path[PATH_MAX];
    const size_t bytes = 1 << 20;
    char *zeros = calloc(1, bytes);
    zip_builder zip;
    zip_builder_start(&zip);
    zip.deflated = 1;
    zip_builder_add(&zip, "m/data.pkl", zeros, bytes);
    for (int i = 0; i < 400; i++) {
        zip.member[zip.count] = zip.member[0];
        snprintf(zip.member[zip.count].name, sizeof zip.member->name, "m/data/%03d", i);
        zip.member[zip.count].name_bytes = 10;
        zip.count++;
    }
    zip_builder_finish(&zip);
    zip_builder_save(&zip, temp_path(*state, "bomb.pt", path));
    zip_builder_free(&zip);
    free(zeros);
    expect_cheap_refusal(*state, path, "overlap");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_temp_folder, remove_temp_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_pickle_that_inflates_to_gigabytes_is_refused),
        IN_FOLDER(a_pickle_of_millions_of_values_is_refused),
        IN_FOLDER(a_tensor_repeated_without_end_is_refused_by_its_shape),
        IN_FOLDER(an_index_of_hundreds_of_thousands_of_tensors_is_refused),
        IN_FOLDER(members_that_share_their_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
