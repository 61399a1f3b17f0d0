/* What the program writes: .npy headers, JSON lines, names that survive, files that are whole. */
#include "tests/test_cli_folder.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/json_text.h"
#include "engine/base/utf8.h"
#include "cli/npy.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/region_groups.h"

static size_t read_file(const char *path, char *content, size_t capacity)
{
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    const size_t bytes = fread(content, 1, capacity - 1, file);
    content[bytes] = '\0';
    fclose(file);
    return bytes;
}

static int count_files(void)
{
    DIR *folder = opendir(".");
    int count = -2; /* "." and ".." */

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* -- .npy ------------------------------------------------------------------------------------ */

static void assert_header(size_t rows, size_t columns, const char *dictionary)
{
    unsigned char header[FC_NPY_HEADER];
    char expected[FC_NPY_HEADER + 1];

    snprintf(expected, sizeof expected, "%-*s\n", FC_NPY_HEADER - 11, dictionary);
    fc_npy_header(header, rows, columns);
    assert_memory_equal(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal(header + 10, expected, FC_NPY_HEADER - 10);
}

/* The bytes that numpy 2.4 itself writes for these shapes. */
static void npy_headers_are_those_of_numpy(void **state)
{
    (void)state;
    assert_header(35, 512, "{'descr': '<f4', 'fortran_order': False, 'shape': (35, 512), }");
    assert_header(0, 64, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 64), }");
    assert_header(12345678901u, 768,
                  "{'descr': '<f4', 'fortran_order': False, 'shape': (12345678901, 768), }");
}

static void the_largest_shape_fits_its_header(void **state)
{
    (void)state;
    assert_header(SIZE_MAX, SIZE_MAX, "{'descr': '<f4', 'fortran_order': False, 'shape': "
                                      "(18446744073709551615, 18446744073709551615), }");
}

/* -- JSON ------------------------------------------------------------------------------------ */

static void assert_json(const char *text, const char *expected)
{
    char *found = NULL;
    size_t bytes;
    FILE *file = open_memstream(&found, &bytes);

    assert_non_null(file);
    fc_json_text(file, text);
    fclose(file);
    assert_string_equal(found, expected);
    free(found);
}

static void json_escapes_what_it_must(void **state)
{
    (void)state;
    assert_json("", "\"\"");
    assert_json("a b'c/d", "\"a b'c/d\"");
    assert_json("q\"b\\n\n\r\t\x01\x1f\x7f", "\"q\\\"b\\\\n\\n\\r\\t\\u0001\\u001f\\u007f\"");
    assert_json("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x88", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x88\"");
}

static void bytes_that_are_no_utf8_become_lone_surrogates(void **state)
{
    (void)state;
    assert_json("\xe9", "\"\\udce9\"");
    assert_json("\xff\x80z", "\"\\udcff\\udc80z\"");
    assert_json("\xc3", "\"\\udcc3\"");                        /* cut */
    assert_json("\xe2\x82", "\"\\udce2\\udc82\"");
    assert_json("\xc0\xaf", "\"\\udcc0\\udcaf\"");             /* overlong */
    assert_json("\xe0\x9f\xbf", "\"\\udce0\\udc9f\\udcbf\"");
    assert_json("\xf0\x8f\xbf\xbf", "\"\\udcf0\\udc8f\\udcbf\\udcbf\"");
    assert_json("\xed\xb3\xa9", "\"\\udced\\udcb3\\udca9\""); /* a surrogate spelled in UTF-8 */
    assert_json("\xf4\x90\x80\x80", "\"\\udcf4\\udc90\\udc80\\udc80\""); /* above U+10FFFF */
}

/* Undoes the escape for one string, as a reader of our lines does. */
static void unescape(char *out, const char *json)
{
    for (json++; json[1]; json++) {
        unsigned code;
        if (sscanf(json, "\\u%4x", &code) == 1) {
            *out++ = (char)(code >= 0xdc80 && code <= 0xdcff ? code - 0xdc00 : code);
            json += 5;
        } else if (*json == '\\') {
            json++;
            *out++ = *json == 'n' ? '\n' : *json == 'r' ? '\r' : *json == 't' ? '\t' : *json;
        } else {
            *out++ = *json;
        }
    }
    *out = '\0';
}

static void every_name_survives_the_round_trip(void **state)
{
    char name[40], back[240], *json = NULL;
    unsigned seed = 1;
    size_t bytes;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        for (int i = 0; i < 39; i++) {
            seed = seed * 1664525u + 1013904223u;
            name[i] = (char)(1 + (seed >> 16) % 255);
        }
        name[round % 40] = '\0';
        name[39] = '\0';
        FILE *file = open_memstream(&json, &bytes);
        assert_non_null(file);
        fc_json_text(file, name);
        fclose(file);
        for (const char *c = json; *c;) { /* valid UTF-8 throughout */
            const size_t length = fc_utf8_bytes(c, strlen(c));
            assert_true(length > 0);
            c += length;
        }
        unescape(back, json);
        free(json);
        assert_string_equal(back, name);
    }
}

/* -- Whole outputs --------------------------------------------------------------------------- */

static const float row[3] = { 0.1f, -1.5f, 3e-20f };

static void npy_and_lines_appear_together_and_only_when_whole(void **state)
{
    fc_output *output;
    flatclip_error err;
    char content[1024];

    (void)state;
    assert_int_equal(fc_output_open("e.npy", 3, &output, &err), FLATCLIP_OK);
    assert_int_equal(fc_output_reserve(output, 100, &err), FLATCLIP_OK);
    assert_int_equal(fc_output_row(output, "a.jpg", row, &err), FLATCLIP_OK);
    assert_int_equal(fc_output_failure(output, "b.jpg", "empty \"file\"", &err), FLATCLIP_OK);
    assert_int_equal(fc_output_row(output, "c.jpg", row, &err), FLATCLIP_OK);
    assert_int_equal(fc_output_rows(output), 2);
    assert_int_not_equal(access("e.npy", F_OK), 0);
    assert_int_not_equal(access("e.jsonl", F_OK), 0);
    assert_int_equal(fc_output_publish(output, &err), FLATCLIP_OK);
    fc_output_free(output);

    assert_int_equal(count_files(), 2);
    read_file("e.jsonl", content, sizeof content);
    assert_string_equal(content, "{\"path\": \"a.jpg\", \"row\": 0}\n"
                                 "{\"path\": \"b.jpg\", \"error\": \"empty \\\"file\\\"\"}\n"
                                 "{\"path\": \"c.jpg\", \"row\": 1}\n");
    assert_int_equal(read_file("e.npy", content, sizeof content), 128 + 2 * sizeof row);
    assert_non_null(strstr(content + 10, "'shape': (2, 3), }"));
    assert_memory_equal(content + 128, row, sizeof row);
    assert_memory_equal(content + 128 + sizeof row, row, sizeof row);
}

static void lines_alone_hold_the_vectors(void **state)
{
    fc_output *output;
    flatclip_error err;
    char content[1024];

    (void)state;
    assert_int_equal(fc_output_open("e.jsonl", 3, &output, &err), FLATCLIP_OK);
    assert_int_equal(fc_output_row(output, "a", row, &err), FLATCLIP_OK);
    assert_int_equal(fc_output_publish(output, &err), FLATCLIP_OK);
    fc_output_free(output);
    assert_int_equal(count_files(), 1);
    read_file("e.jsonl", content, sizeof content);
    assert_string_equal(content, "{\"path\": \"a\", \"row\": 0, "
                                 "\"embedding\": [0.100000001, -1.5, 2.9999999e-20]}\n");
}

static void an_output_that_is_given_up_leaves_no_trace(void **state)
{
    fc_output *output;
    flatclip_error err;
    char content[64];

    (void)state;
    FILE *old = fopen("e.npy", "wb");
    assert_non_null(old);
    fputs("old", old);
    fclose(old);
    assert_int_equal(fc_output_open("e.npy", 3, &output, &err), FLATCLIP_OK);
    assert_int_equal(fc_output_row(output, "a", row, &err), FLATCLIP_OK);
    fc_output_free(output);
    assert_int_equal(count_files(), 1);
    read_file("e.npy", content, sizeof content);
    assert_string_equal(content, "old");
}

static void what_cannot_be_written_is_refused_at_once(void **state)
{
    fc_output *output;
    flatclip_error err;

    (void)state;
    assert_int_equal(fc_output_open("no/e.npy", 3, &output, &err), FLATCLIP_ERR_IO);
    assert_null(output);
    assert_string_equal(err.message, "cannot write no/e.npy: No such file or directory; make the "
                                     "folder first");
    assert_int_equal(mkdir("e.jsonl", 0700), 0);
    assert_int_equal(fc_output_open("e.npy", 3, &output, &err), FLATCLIP_ERR_IO);
    assert_string_equal(err.message, "cannot write e.jsonl: it is a folder; choose another name");
    assert_int_equal(mkfifo("f.npy", 0600), 0);
    assert_int_equal(fc_output_open("f.npy", 3, &output, &err), FLATCLIP_ERR_IO);
    assert_int_equal(fc_output_open("e.txt", 3, &output, &err), FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(fc_output_check_name(".npy", &err), FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(fc_output_check_name("a.npy", &err), FLATCLIP_OK);
    assert_int_equal(count_files(), 2); /* those that the test made */
}

static void only_so_many_files_are_unfinished_at_one_time(void **state)
{
    fc_output_file files[FC_OUTPUT_FILES], one_more;
    flatclip_error err;
    char name[16];

    (void)state;
    for (int i = 0; i < FC_OUTPUT_FILES; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(fc_output_file_open(&files[i], name, &err), FLATCLIP_OK);
    }
    assert_int_equal(fc_output_file_open(&one_more, "more", &err), FLATCLIP_ERR_ARGUMENT);
    fc_output_file_discard(&files[1]);
    assert_int_equal(fc_output_file_open(&one_more, "more", &err), FLATCLIP_OK);
    fc_output_file_discard(&one_more);
    for (int i = 0; i < FC_OUTPUT_FILES; i++)
        fc_output_file_discard(&files[i]);
    assert_int_equal(count_files(), 0);
}

/* -- For people ------------------------------------------------------------------------------ */

static void progress_shows_rate_and_time_left_and_fits(void **state)
{
    char line[256];

    (void)state;
    fc_progress_format(line, sizeof line, 80, 50, 200, 2.0);
    assert_string_equal(line, "[##########------------------------------]  50/200  25.0 images/s  "
                              "6 s left");
    fc_progress_format(line, sizeof line, 200, 1000, 1000000, 10.0);
    assert_non_null(strstr(line, "1000/1000000  100.0 images/s  2 h 46 min left"));
    fc_progress_format(line, sizeof line, 80, 0, 7, 0.5);
    assert_non_null(strstr(line, "0/7"));
    fc_progress_format(line, sizeof line, 80, 0, 0, 0);
    for (int columns = 0; columns < 300; columns++) {
        fc_progress_format(line, sizeof line, columns, 123456, 234567, 1234.5);
        assert_true(strlen(line) < (size_t)(columns > 1 ? columns : 1));
    }
}

static void regions_of_all_layers_count_as_one(void **state)
{
    static const flatclip_region regions[] = {
        { FLATCLIP_REGION_WEIGHTS, "blocks.0.ln_1.weight", 0, 10, FLATCLIP_PLACE_HOST },
        { FLATCLIP_REGION_WEIGHTS, "conv1", 10, 25, FLATCLIP_PLACE_HOST },
        { FLATCLIP_REGION_WEIGHTS, "blocks.11.ln_1.weight", 35, 20, FLATCLIP_PLACE_HOST },
        { FLATCLIP_REGION_WEIGHTS, "blocks.0.ln_2.weight", 55, 5, FLATCLIP_PLACE_HOST },
        { FLATCLIP_REGION_WORKSPACE, "conv1", 0, 1, FLATCLIP_PLACE_HOST },
    };
    fc_region_groups groups = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
        fc_region_groups_add(&groups, &regions[i]);
    fc_region_groups_sort(&groups);
    assert_int_equal(groups.count, 4);
    assert_string_equal(groups.groups[0].name, "blocks.*.ln_1.weight");
    assert_int_equal(groups.groups[0].count, 2);
    assert_int_equal(groups.groups[0].bytes, 30);
    assert_string_equal(groups.groups[1].name, "conv1");
    assert_int_equal(groups.groups[3].kind, FLATCLIP_REGION_WORKSPACE);
    fc_region_groups_free(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_headers_are_those_of_numpy),
        cmocka_unit_test(the_largest_shape_fits_its_header),
        cmocka_unit_test(json_escapes_what_it_must),
        cmocka_unit_test(bytes_that_are_no_utf8_become_lone_surrogates),
        cmocka_unit_test(every_name_survives_the_round_trip),
        IN_FOLDER(npy_and_lines_appear_together_and_only_when_whole),
        IN_FOLDER(lines_alone_hold_the_vectors),
        IN_FOLDER(an_output_that_is_given_up_leaves_no_trace),
        IN_FOLDER(what_cannot_be_written_is_refused_at_once),
        IN_FOLDER(only_so_many_files_are_unfinished_at_one_time),
        cmocka_unit_test(progress_shows_rate_and_time_left_and_fits),
        cmocka_unit_test(regions_of_all_layers_count_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
