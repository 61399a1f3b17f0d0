/* safetensors.c: what is broken is refused with a message that says what and where; what is good
 * reads as it was written. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <sys/stat.h>

#include "engine/base/half.h"
#include "engine/base/safetensors.h"
#include "tests/temp_folder.h"

/* -- Headers --------------------------------------------------------------------------------- */

/* One tensor called t around which a broken entry is built. */
#define ENTRY(dtype, shape, offsets) \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define GOOD_A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static const struct {
    const char *header;
    uint64_t data_bytes;
    const char *says[2]; /* parts of the message */
} BROKEN[] = {
    { "", 0, { "not a .safetensors file" } },
    { "[]", 0, { "not a .safetensors file" } },
    { " {}", 0, { "not a .safetensors file" } },
    { "{", 0, { "no valid JSON" } },
    { "{} x", 0, { "no valid JSON" } },
    { "{\"t\":{\"dtype\":\"\xff\"}}", 0, { "no valid JSON at byte 15", "not UTF-8" } },
    { "{\"a\\u0000b\":{}}", 0, { "no valid JSON at byte 9", "u0000" } },
    { "{" GOOD_A "," GOOD_A "}", 8, { "the key a twice" } },
    { "{\"t\":{\"dtype\":\"U8\",\"shape\":[],\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1,
      { "the key dtype twice" } },
    { "{\"__metadata__\":{\"k\":\"1\",\"k\":\"1\"}}", 0, { "the key k twice" } },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, { "the key __metadata__ twice" } },
    { "{\"t\":3}", 0, { "tensor t", "no object" } },
    { "{\"t\":{}}", 0, { "tensor t", "no dtype" } },
    { ENTRY("7", "[]", "[0,4]"), 4, { "tensor t", "no dtype" } },
    { ENTRY("\"F8_E4M3\"", "[4]", "[0,4]"), 4, { "tensor t", "F8_E4M3" } },
    { ENTRY("\"f32\"", "[]", "[0,4]"), 4, { "tensor t", "dtype f32" } },
    { ENTRY("\"F32\"", "4", "[0,4]"), 4, { "tensor t", "no shape" } },
    { ENTRY("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, { "tensor t", "9 dimensions" } },
    { ENTRY("\"F32\"", "[1,-1]", "[0,4]"), 4, { "tensor t", "dimension 1" } },
    { ENTRY("\"F32\"", "[1.0]", "[0,4]"), 4, { "byte 32", "whole numbers" } },
    { ENTRY("\"F32\"", "[1e0]", "[0,4]"), 4, { "byte 32", "whole numbers" } },
    { ENTRY("\"F32\"", "[\"1\"]", "[0,4]"), 4, { "tensor t", "dimension 0" } },
    { ENTRY("\"F32\"", "[9007199254740993]", "[0,4]"), 4, { "tensor t", "dimension 0" } },
    { ENTRY("\"U8\"", "[4294967296,4294967296]", "[0,4]"), 4, { "tensor t", "size overflows" } },
    { ENTRY("\"F32\"", "[4294967296,1073741824]", "[0,4]"), 4, { "tensor t", "bytes overflows" } },
    { ENTRY("\"U8\"", "[4294967296,4294967296,0]", "[0,0]"), 0, { "tensor t", "size overflows" } },
    { ENTRY("\"F32\"", "[1]", "[4]"), 4, { "tensor t", "data_offsets" } },
    { ENTRY("\"F32\"", "[1]", "[0,2,4]"), 4, { "tensor t", "data_offsets" } },
    { ENTRY("\"F32\"", "[1]", "{}"), 4, { "tensor t", "data_offsets" } },
    { ENTRY("\"F32\"", "[1]", "[0,4.0]"), 4, { "byte 53", "whole numbers" } },
    { ENTRY("\"F32\"", "[1]", "[-4,0]"), 4, { "tensor t", "data_offsets" } },
    { ENTRY("\"F32\"", "[1]", "[4,0]"), 4, { "tensor t", "backwards" } },
    { ENTRY("\"F32\"", "[2]", "[0,8]"), 4, { "tensor t", "only 4" } },
    { ENTRY("\"F32\"", "[1]", "[9007199254740987,9007199254740991]"), 4,
      { "tensor t", "only 4" } },
    { ENTRY("\"F32\"", "[1]", "[0,9007199254740993]"), 4, { "tensor t", "2^53" } },
    { ENTRY("\"F32\"", "[1]", "[0,8]"), 8, { "tensor t", "need 4" } },
    { ENTRY("\"F16\"", "[3]", "[0,4]"), 4, { "tensor t", "need 6" } },
    { ENTRY("\"F32\"", "[1]", "[4,8]"), 8, { "tensor t", "hole" } },
    { ENTRY("\"F32\"", "[1]", "[0,4]"), 5, { "1 bytes follow" } },
    { "{}", 3, { "3 bytes follow" } },
    { "{" GOOD_A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
      { "tensor b", "overlaps tensor a" } },
    { "{" GOOD_A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
      { "overlaps tensor" } },
    { "{" GOOD_A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16,
      { "tensor b", "expected 8" } },
    { "{\"__metadata__\":[]}", 0, { "__metadata__", "no" } },
    { "{\"__metadata__\":{\"k\":1}}", 0, { "__metadata__", "key k is not a string" } },
};

static void every_broken_header_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BROKEN / sizeof *BROKEN; i++) {
        const size_t bytes = strlen(BROKEN[i].header);
        fc_safetensors *file;
        flatclip_error err;
        const flatclip_status status = fc_safetensors_parse(
            "some.safetensors", BROKEN[i].header, bytes, 8 + bytes + BROKEN[i].data_bytes, &file,
            &err);
        if (status != FLATCLIP_ERR_FORMAT)
            fail_msg("accepted: %s", BROKEN[i].header);
        assert_null(file);
        assert_int_equal(err.status, FLATCLIP_ERR_FORMAT);
        if (!strstr(err.message, "some.safetensors"))
            fail_msg("\"%s\" does not name the file", err.message);
        for (int k = 0; k < 2 && BROKEN[i].says[k]; k++)
            if (!strstr(err.message, BROKEN[i].says[k]))
                fail_msg("\"%s\" does not say \"%s\"", err.message, BROKEN[i].says[k]);
    }
}

static void a_message_is_one_whole_line_whatever_the_names(void **state)
{
    static char header[4096];
    char name[2000];
    fc_safetensors *file;
    flatclip_error err;
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memcpy(name + 10, "\\n", 2);
    const int bytes = snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"%s\"}}", name, name);
    assert_int_equal(fc_safetensors_parse(name, header, (size_t)bytes, 8 + (uint64_t)bytes, &file,
                                          &err), FLATCLIP_ERR_FORMAT);
    assert_null(strchr(err.message, '\n'));
    assert_non_null(strstr(err.message, "is not known here"));
}

static void a_good_header_is_read_in_order_of_offset(void **state)
{
    static const char header[] =
        "{\"late\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
        "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[8,8]},"
        "\"__metadata__\":{\"k\":\"v\"}}   ";
    const size_t bytes = sizeof header - 1;
    fc_safetensors *file;
    flatclip_error err;
    (void)state;
    assert_int_equal(fc_safetensors_parse("x", header, bytes, 8 + bytes + 20, &file, &err), 0);
    assert_int_equal(fc_safetensors_count(file), 3);
    assert_string_equal(fc_safetensors_at(file, 0)->name, "scalar");
    assert_string_equal(fc_safetensors_at(file, 1)->name, "none");
    const fc_tensor *late = fc_safetensors_find(file, "late");
    assert_ptr_equal(late, fc_safetensors_at(file, 2));
    assert_int_equal(late->rank, 2);
    assert_int_equal(late->dim[1], 3);
    assert_int_equal(late->count, 6);
    assert_int_equal(late->bytes, 12);
    assert_int_equal(late->offset, 8 + bytes + 8);
    assert_int_equal(fc_safetensors_at(file, 0)->count, 1);
    assert_null(fc_safetensors_find(file, "lat"));
    assert_null(fc_safetensors_find(file, "__metadata__"));
    assert_string_equal(fc_safetensors_metadata(file, "k"), "v");
    assert_null(fc_safetensors_metadata(file, "v"));
    fc_safetensors_close(file);
}

/* -- Failing allocations --------------------------------------------------------------------- */

static int allocations_left; /* of cJSON; then it gets none */

static void *scarce_malloc(size_t bytes)
{
    return allocations_left-- > 0 ? malloc(bytes) : NULL;
}

static void an_allocation_that_fails_in_the_parser_is_called_that(void **state)
{
    static const char header[] = "{" GOOD_A ",\"__metadata__\":{\"k\":\"v\"}}";
    cJSON_Hooks hooks = { scarce_malloc, free };
    int allowed = 0;
    flatclip_status status;
    (void)state;
    cJSON_InitHooks(&hooks);
    do {
        fc_safetensors *file;
        flatclip_error err;
        allocations_left = allowed++;
        status = fc_safetensors_parse("x", header, sizeof header - 1, 8 + sizeof header - 1 + 8,
                                      &file, &err);
        fc_safetensors_close(file);
    } while (status == FLATCLIP_ERR_MEMORY && allowed < 1000);
    cJSON_InitHooks(NULL);
    assert_int_equal(status, FLATCLIP_OK);
    assert_true(allowed > 5);
}

/* -- Files ----------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *header, uint64_t header_bytes,
                       const void *data, size_t data_bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(&header_bytes, 8, 1, file);
    fwrite(header, 1, strlen(header), file);
    fwrite(data, 1, data_bytes, file);
    assert_int_equal(fclose(file), 0);
}

static void expect_refusal(const char *path, flatclip_status expected, const char *says)
{
    fc_safetensors *file;
    flatclip_error err;
    assert_int_equal(fc_safetensors_open(path, &file, &err), expected);
    assert_null(file);
    if (!strstr(err.message, path) || !strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\" of %s", err.message, says, path);
}

static void what_is_no_such_file_is_refused(void **state)
{
    char path[PATH_MAX];
    expect_refusal(temp_path(*state, "absent", path), FLATCLIP_ERR_IO, "No such file");
    expect_refusal("tests/data", FLATCLIP_ERR_IO, "folder");
    expect_refusal("/dev/null", FLATCLIP_ERR_IO, "not a regular file");
    assert_int_equal(mkfifo(temp_path(*state, "pipe", path), 0600), 0);
    expect_refusal(path, FLATCLIP_ERR_IO, "not a regular file");
    expect_refusal("tests/data/images/good/cat_420.jpg", FLATCLIP_ERR_FORMAT, "header length");
    expect_refusal("tests/data/images/bad/empty.jpg", FLATCLIP_ERR_FORMAT, "0 bytes");

    FILE *file = fopen(temp_path(*state, "short", path), "wb");
    fwrite("1234567", 1, 7, file);
    fclose(file);
    expect_refusal(path, FLATCLIP_ERR_FORMAT, "7 bytes");
}

static void a_header_longer_than_file_or_limit_is_refused(void **state)
{
    char path[PATH_MAX];
    temp_path(*state, "long.safetensors", path);
    write_file(path, "{}", 3, "", 0);
    expect_refusal(path, FLATCLIP_ERR_FORMAT, "rest of the file (2)");
    write_file(path, "{}", UINT64_MAX, "", 0);
    expect_refusal(path, FLATCLIP_ERR_FORMAT, "limit");
    write_file(path, "{}", 100000001, "", 0);
    assert_int_equal(truncate(path, 200000000), 0); /* sparse */
    expect_refusal(path, FLATCLIP_ERR_FORMAT, "limit");
}

enum { LONG = 20001 }; /* elements: more than one chunk of each type, and not a round number */

/* Tensors f32, f16, bf16, f64 of LONG elements and i32 of one; values by pattern(). */
static float pattern(size_t i)
{
    return (float)((int)(i * 7919 % 509) - 254) / 4; /* exact in all of them */
}

static void write_all_types(const char *path)
{
    static struct {
        double f64[LONG];
        float f32[LONG];
        int32_t i32;
        uint16_t f16[LONG], bf16[LONG];
    } data;
    static char header[1024];
    for (size_t i = 0; i < LONG; i++) {
        data.f64[i] = data.f32[i] = pattern(i);
        data.f16[i] = fc_float_to_half(pattern(i));
        data.bf16[i] = fc_float_to_bf16(pattern(i));
    }
    const int f64_end = 8 * LONG, f32_end = f64_end + 4 * LONG, i32_end = f32_end + 4;
    const int f16_end = i32_end + 2 * LONG, bf16_end = f16_end + 2 * LONG;
    snprintf(header, sizeof header,
             "{\"f64\":{\"dtype\":\"F64\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
             "\"f32\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%d,%d]},"
             "\"i32\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[%d,%d]},"
             "\"f16\":{\"dtype\":\"F16\",\"shape\":[%d],\"data_offsets\":[%d,%d]},"
             "\"bf16\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
             LONG, f64_end, LONG, f64_end, f32_end, f32_end, i32_end, LONG, i32_end, f16_end, LONG,
             f16_end, bf16_end);
    write_file(path, header, strlen(header), &data, (size_t)bf16_end);
}

static void every_floating_type_reads_as_float32_from_anywhere(void **state)
{
    static const char *const names[] = { "f32", "f16", "bf16", "f64" };
    static const size_t starts[] = { 0, 1, 4095, 8192, LONG - 1, LONG };
    static float values[LONG + 1];
    char path[PATH_MAX];
    fc_safetensors *file;
    flatclip_error err;
    write_all_types(temp_path(*state, "types.safetensors", path));
    assert_int_equal(fc_safetensors_open(path, &file, &err), FLATCLIP_OK);
    for (int n = 0; n < 4; n++) {
        const fc_tensor *tensor = fc_safetensors_find(file, names[n]);
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
            const size_t count = LONG - starts[s];
            values[count] = 12345; /* must stay */
            assert_int_equal(fc_safetensors_read_f32(file, tensor, starts[s], count, values, &err),
                             FLATCLIP_OK);
            for (size_t i = 0; i < count; i++)
                assert_true(values[i] == pattern(starts[s] + i));
            assert_true(values[count] == 12345);
        }
    }
    fc_safetensors_close(file);
}

static void reading_what_is_not_there_is_an_error(void **state)
{
    static float values[LONG];
    char path[PATH_MAX];
    fc_safetensors *file;
    flatclip_error err;
    write_all_types(temp_path(*state, "types.safetensors", path));
    assert_int_equal(fc_safetensors_open(path, &file, &err), FLATCLIP_OK);
    assert_int_equal(fc_safetensors_read_f32(file, fc_safetensors_find(file, "i32"), 0, 1, values,
                                             &err), FLATCLIP_ERR_FORMAT);
    assert_non_null(strstr(err.message, "tensor i32 is stored as I32"));
    const fc_tensor *tensor = fc_safetensors_find(file, "bf16");
    assert_int_equal(fc_safetensors_read_f32(file, tensor, 1, LONG, values, &err),
                     FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(fc_safetensors_read_f32(file, tensor, 2, UINT64_MAX, values, &err),
                     FLATCLIP_ERR_ARGUMENT);

    assert_int_equal(truncate(path, (off_t)(tensor->offset + tensor->bytes - 1)), 0);
    assert_int_equal(fc_safetensors_read_f32(file, tensor, 0, LONG, values, &err),
                     FLATCLIP_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "bf16"));
    assert_int_equal(fc_safetensors_read_f32(file, tensor, 0, LONG - 1, values, &err),
                     FLATCLIP_OK);
    fc_safetensors_close(file);
    expect_refusal(path, FLATCLIP_ERR_FORMAT, "tensor bf16 ends at byte");
}

static void golden_files_open_and_hold_unit_rows(void **state)
{
    static const char *const unit[] = { "image_tiny", "image_tiny-b16", "image_tiny-l14-336",
                                        "image_vitb32", "image_vitb32_gelu" };
    static const char *const other[] = { "pixels_openai", "pixels_hf", "pixels_exif", "trace_tiny",
                                         "trace_vitb32", "cases/expected",
                                         "checkpoints/hf/model", "checkpoints/open_clip_bf16" };
    float row[512];
    char path[PATH_MAX];
    fc_safetensors *file;
    flatclip_error err;
    (void)state;
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
        snprintf(path, sizeof path, "tests/data/%s.safetensors", unit[i]);
        assert_int_equal(fc_safetensors_open(path, &file, &err), FLATCLIP_OK);
        const fc_tensor *tensor = fc_safetensors_find(file, "unit");
        const uint64_t width = tensor->dim[1];
        double square = 0;
        assert_int_equal(fc_safetensors_read_f32(file, tensor, width, width, row, &err), 0);
        for (uint64_t k = 0; k < width; k++)
            square += (double)row[k] * row[k];
        assert_true(fabs(square - 1) < 1e-5);
        fc_safetensors_close(file);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        snprintf(path, sizeof path, "tests/data/%s.safetensors", other[i]);
        assert_int_equal(fc_safetensors_open(path, &file, &err), FLATCLIP_OK);
        assert_string_equal(fc_safetensors_path(file), path);
        assert_true(fc_safetensors_count(file) > 0);
        fc_safetensors_close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_broken_header_is_refused_by_name),
        cmocka_unit_test(a_message_is_one_whole_line_whatever_the_names),
        cmocka_unit_test(a_good_header_is_read_in_order_of_offset),
        cmocka_unit_test(an_allocation_that_fails_in_the_parser_is_called_that),
        cmocka_unit_test_setup_teardown(what_is_no_such_file_is_refused, make_temp_folder,
                                        remove_temp_folder),
        cmocka_unit_test_setup_teardown(a_header_longer_than_file_or_limit_is_refused,
                                        make_temp_folder, remove_temp_folder),
        cmocka_unit_test_setup_teardown(every_floating_type_reads_as_float32_from_anywhere,
                                        make_temp_folder, remove_temp_folder),
        cmocka_unit_test_setup_teardown(reading_what_is_not_there_is_an_error, make_temp_folder,
                                        remove_temp_folder),
        cmocka_unit_test(golden_files_open_and_hold_unit_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
