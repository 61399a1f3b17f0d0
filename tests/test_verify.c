/* verify.c: a good model passes every check, and each kind of damage fails the one that is meant
 * for it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>

#include "tests/temp_folder.h"
#include "weights_tools/merges.h"
#include "weights_tools/model_writer.h"
#include "weights_tools/synth.h"
#include "weights_tools/verify.h"

enum { CHECKS = 5 };
static const char *const NAMES[CHECKS] = { "header", "values", "sha256", "vocabulary",
                                           "image tower" };

typedef struct {
    fc_verify_result result[CHECKS];
    char detail[CHECKS][400];
    int count, failed;
} outcome;

static void note(void *user, const char *check, fc_verify_result result, const char *detail)
{
    outcome *o = user;
    assert_true(o->count < CHECKS);
    assert_string_equal(check, NAMES[o->count]);
    o->result[o->count] = result;
    snprintf(o->detail[o->count++], sizeof *o->detail, "%s", detail);
}

/* Verifies, and fails the test unless the results are those of the pattern: o, F or s (ok, failed,
 * skipped) for each check. */
static outcome verify(const char *path, const char *pattern)
{
    static const char letters[] = "oFs";
    outcome o = { .count = 0 };
    o.failed = fc_verify(path, note, &o);
    assert_int_equal(o.count, CHECKS);
    int failed = 0;
    for (int i = 0; i < CHECKS; i++) {
        if (letters[o.result[i]] != pattern[i])
            fail_msg("%s: %c, expected %c: %s", NAMES[i], letters[o.result[i]], pattern[i],
                     o.detail[i]);
        failed += pattern[i] == 'F';
    }
    assert_int_equal(o.failed, failed);
    return o;
}

static void expect_detail(const outcome *o, int check, const char *part)
{
    if (!strstr(o->detail[check], part))
        fail_msg("\"%s\" does not say \"%s\"", o->detail[check], part);
}

static const char *make_model(const temp_folder *folder, const char *name, char path[PATH_MAX])
{
    flatclip_error err;
    if (fc_synth_write(name, 1, FC_F32, temp_path(folder, "m.safetensors", path), &err))
        fail_msg("%s", err.message);
    return path;
}

/* Writes bytes over element index of a tensor. */
static void overwrite(const char *path, const char *tensor_name, uint64_t index, const void *data,
                      size_t bytes)
{
    fc_safetensors *file;
    flatclip_error err;
    assert_int_equal(fc_safetensors_open(path, &file, &err), FLATCLIP_OK);
    const fc_tensor *tensor = fc_safetensors_find(file, tensor_name);
    const uint64_t at = tensor->offset + index * fc_dtype_bytes(tensor->dtype);
    fc_safetensors_close(file);
    FILE *out = fopen(path, "r+b");
    assert_non_null(out);
    fseek(out, (long)at, SEEK_SET);
    assert_int_equal(fwrite(data, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
}

static void a_good_model_passes(void **state)
{
    char path[PATH_MAX];
    outcome o = verify(make_model(*state, "tiny", path), "ooooo");
    expect_detail(&o, 2, "e1ed9730c9503b4c27b76c469ea058b673629142bca4ab73007b6700d0badeb8");
    expect_detail(&o, 3, "48894 merges, those of OpenAI's CLIP");
    expect_detail(&o, 4, "the same bits alone and in batches of 3, on cpu/");
    verify(make_model(*state, "micro", path), "oooso"); /* a vocabulary that is not CLIP's */
}

static void a_changed_value_changes_the_hash(void **state)
{
    char path[PATH_MAX];
    const float value = 0.125f;
    make_model(*state, "tiny", path);
    overwrite(path, "ln_final.bias", 3, &value, sizeof value);
    const outcome o = verify(path, "ooFoo");
    expect_detail(&o, 2, "but the metadata says e1ed9730");
}

static void values_that_are_not_finite_are_named(void **state)
{
    static const struct {
        float value;
        const char *says;
    } bad[] = { { NAN, "nan" }, { -INFINITY, "-inf" } };
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        make_model(*state, "tiny", path);
        overwrite(path, "text_projection", 17, &bad[i].value, sizeof bad[i].value);
        const outcome o = verify(path, "oFFoo"); /* the text tower's: images do not see it */
        expect_detail(&o, 1, "tensor text_projection: element 17 is ");
        expect_detail(&o, 1, bad[i].says);
        expect_detail(&o, 1, "; 1 of ");
    }
    overwrite(path, "visual.ln_post.bias", 0, &bad[0].value, sizeof bad[0].value);
    verify(path, "oFFoF"); /* this one reaches every row */
}

static void a_damaged_vocabulary_is_named(void **state)
{
    char path[PATH_MAX];
    make_model(*state, "tiny", path);
    overwrite(path, FC_MERGES_TENSOR, 1, "_", 1);
    outcome o = verify(path, "oooFo");
    expect_detail(&o, 3, "line 1 of the merges");
    make_model(*state, "tiny", path);
    overwrite(path, FC_MERGES_TENSOR, 0, "j", 1);
    o = verify(path, "ooooo");
    expect_detail(&o, 3, "others than OpenAI's");
}

static void a_file_that_is_no_model_fails_at_its_header(void **state)
{
    char path[PATH_MAX];
    make_model(*state, "micro", path);
    assert_int_equal(truncate(path, 100000), 0);
    verify(path, "Fssss");
    verify("tests/data/images.txt", "Fssss");
    const outcome o = verify(temp_path(*state, "absent", path), "Fssss");
    expect_detail(&o, 0, "No such file");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_temp_folder, remove_temp_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_good_model_passes),
        IN_FOLDER(a_changed_value_changes_the_hash),
        IN_FOLDER(values_that_are_not_finite_are_named),
        IN_FOLDER(a_damaged_vocabulary_is_named),
        IN_FOLDER(a_file_that_is_no_model_fails_at_its_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
