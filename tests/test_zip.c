/* zip.c: members read as they were packed, from archives in every form that is written; whatever is
 * broken or not read is refused with a message that says what and where. */
#define _GNU_SOURCE
#include "tests/zip_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include "tests/golden.h"

/* -- A file system that serves reads in bits ------------------------------------------------- */

static size_t most_at_once; /* bytes that a read gives; 0: all */
static int reads;
static int read_errno;      /* that reads fail with, or 0 */

/* In front of the C library's: every other read is interrupted. */
ssize_t pread(int file, void *out, size_t bytes, off_t offset)
{
    if (read_errno || (most_at_once && reads++ % 2 == 0)) {
        errno = read_errno ? read_errno : EINTR;
        return -1;
    }
    if (most_at_once && bytes > most_at_once)
        bytes = most_at_once;
    return syscall(SYS_pread64, file, out, bytes, offset);
}

/* -- What is read ---------------------------------------------------------------------------- */

/* Opens what was built, checks that it is the sample, and ends both. */
static void must_be_the_sample(zip_builder *built)
{
    zip_builder_finish(built);
    const int file = file_of(built->data, built->bytes);
    fc_zip *zip = open_good(file);
    check_sample(zip);
    for (size_t i = 0; i < SAMPLE_MEMBERS; i++) {
        const fc_zip_member *member = fc_zip_at(zip, i);
        assert_int_equal(member->offset, built->member[i].data);
        assert_int_equal(member->packed, built->member[i].packed);
        assert_int_equal(member->crc32, built->member[i].crc32);
    }
    fc_zip_close(zip);
    close(file);
    zip_builder_free(built);
}

static void every_form_of_an_archive_reads_the_same(void **state)
{
    (void)state;
    for (int form = 0; form < 32; form++) {
        zip_builder built;
        zip_builder_start(&built);
        built.align = form & 1 ? 64 : 0;
        built.descriptor = form >> 1 & 1;
        built.zip64 = form >> 2 & 1;
        built.zip64_end = form >> 3 & 1;
        built.comment = form & 16 ? "a comment with PK\5\6 in it" : NULL;
        add_sample(&built);
        must_be_the_sample(&built);
    }
}

static void reads_that_are_short_or_interrupted_are_continued(void **state)
{
    (void)state;
    zip_builder built;
    zip_builder_start_torch(&built);
    add_sample(&built);
    most_at_once = 1;
    reads = 0;
    must_be_the_sample(&built);
    most_at_once = 0;
    assert_true(reads > 1000);
}

static void aligned_members_begin_at_multiples_of_64(void **state)
{
    (void)state;
    zip_builder built;
    zip_builder_start_torch(&built);
    add_sample(&built);
    for (size_t i = 0; i < built.count; i++)
        assert_int_equal(built.member[i].data % 64, 0);
    must_be_the_sample(&built);
}

static void the_longest_comment_and_an_empty_archive_are_read(void **state)
{
    (void)state;
    static char comment[65536];
    memset(comment, 'c', sizeof comment - 1);
    for (int empty = 0; empty < 2; empty++) {
        zip_builder built;
        zip_builder_start(&built);
        built.comment = comment;
        if (!empty)
            add_sample(&built);
        zip_builder_finish(&built);
        const int file = file_of(built.data, built.bytes);
        fc_zip *zip = open_good(file);
        assert_int_equal(fc_zip_count(zip), empty ? 0 : SAMPLE_MEMBERS);
        assert_null(fc_zip_find(zip, "a"));
        fc_zip_close(zip);
        close(file);
        zip_builder_free(&built);
    }
}

/* Members in another order in the directory than in the file, as archives that were edited have. */
static void members_come_in_the_order_of_the_file(void **state)
{
    (void)state;
    zip_builder built;
    zip_builder_start(&built);
    add_sample(&built);
    const zip_builder_member first = built.member[0];
    built.member[0] = built.member[3];
    built.member[3] = first;
    zip_builder_finish(&built);
    const int file = file_of(built.data, built.bytes);
    fc_zip *zip = open_good(file);
    check_sample(zip);
    fc_zip_close(zip);
    close(file);
    zip_builder_free(&built);
}

static void folders_and_names_in_any_script_are_members(void **state)
{
    (void)state;
    static const char *const names[] = { "a/", "a/r\xc3\xa9sum\xc3\xa9", "plain \xe9" };
    zip_builder built;
    zip_builder_start(&built);
    for (int i = 0; i < 3; i++)
        zip_builder_add(&built, names[i], "x", i > 0)->flags = i == 2 ? 0 : 0x0800;
    built.data[built.member[2].header + 7] = 0;
    zip_builder_finish(&built);
    const int file = file_of(built.data, built.bytes);
    fc_zip *zip = open_good(file);
    for (int i = 0; i < 3; i++)
        assert_string_equal(fc_zip_find(zip, names[i])->name, names[i]);
    fc_zip_close(zip);
    close(file);
    zip_builder_free(&built);
}

/* Every member of torch's own archives: by name, by checksum, whole and in pieces. */
static void checkpoints_of_torch_verify_and_read(void **state)
{
    (void)state;
    static const struct { const char *path; size_t members, deflated; } files[] = {
        { "openai_jit_fp16.pt", 104, 25 }, { "openai_state_fp16.pt", 44, 0 },
        { "openai_state_fp32.pt", 44, 0 }, { "open_clip_training.pt", 44, 0 },
        { "hf/pytorch_model.bin", 54, 0 },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/data/checkpoints/%s", files[i].path);
        const int file = open(path, O_RDONLY);
        const golden_bytes bytes = golden_read(path);
        fc_zip *zip = open_good(file);
        size_t deflated = 0;
        for (size_t k = 0; k < fc_zip_count(zip); k++) {
            const fc_zip_member *member = fc_zip_at(zip, k);
            unsigned char *data, piece[7];
            deflated += (size_t)member->deflated;
            assert_ptr_equal(fc_zip_find(zip, member->name), member);
            assert_int_equal(fc_zip_verify(zip, member, NULL), FLATCLIP_OK);
            assert_int_equal(fc_zip_read_whole(zip, member, member->bytes, &data, NULL),
                             FLATCLIP_OK);
            if (!member->deflated) {
                const size_t some = member->bytes < 7 ? (size_t)member->bytes : 7;
                const uint64_t at = member->bytes - some;
                assert_memory_equal(data, bytes.data + member->offset, member->bytes);
                assert_int_equal(fc_zip_read(zip, member, at, some, piece, NULL), FLATCLIP_OK);
                assert_memory_equal(piece, data + at, some);
            }
            free(data);
        }
        assert_int_equal(fc_zip_count(zip), files[i].members);
        assert_int_equal(deflated, files[i].deflated);
        fc_zip_close(zip);
        free(bytes.data);
        close(file);
    }
}

/* -- What is refused ------------------------------------------------------------------------- */

/* What of an archive to overwrite: bytes at an offset from a part of it. Members 0, 2 and 3 of the
 * sample are stored, 1 is deflated. */
typedef enum { LOCAL, ENTRY, RECORD, LOCATOR, END } archive_part;
typedef enum { PLAIN, TORCH, WIDE } archive_form; /* WIDE: zip64 fields in every header, too */

static const struct {
    archive_form form;
    archive_part part;
    int member, offset, width;
    uint64_t value;
    const char *says[2];
} BROKEN[] = {
    { PLAIN, ENTRY, 0, 0, 1, 'Q', { "no member's entry", "count disagrees" } },
    { PLAIN, ENTRY, 1, 8, 2, 0x0801, { "a/code.py", "encrypted" } },
    { PLAIN, ENTRY, 1, 8, 2, 0x0841, { "a/code.py", "encrypted" } },
    { PLAIN, ENTRY, 1, 8, 2, 0x2800, { "a/code.py", "encrypted" } },
    { PLAIN, ENTRY, 1, 8, 2, 0x0820, { "a/code.py", "flags 0x0820" } },
    { PLAIN, ENTRY, 1, 10, 2, 12, { "a/code.py", "method 12" } },
    { PLAIN, ENTRY, 1, 10, 2, 93, { "a/code.py", "method 93" } },
    { PLAIN, ENTRY, 1, 10, 2, 9, { "a/code.py", "method 9" } },
    { PLAIN, ENTRY, 1, 10, 2, 0, { "a/code.py", "is stored, but has" } },
    { PLAIN, ENTRY, 3, 10, 2, 8, { "a/data/0", "disagrees with the directory about its method" } },
    { PLAIN, ENTRY, 0, 16, 1, 0x55, { "a/data.pkl", "about its checksum" } },
    { PLAIN, ENTRY, 0, 20, 4, 6, { "a/data.pkl", "is stored, but has 6 bytes" } },
    { PLAIN, ENTRY, 1, 20, 4, 20, { "a/code.py", "about its size" } },
    { PLAIN, ENTRY, 1, 20, 4, 100000, { "a/code.py", "the whole file has only" } },
    { PLAIN, ENTRY, 1, 24, 4, 3001, { "a/code.py", "about its size" } },
    { PLAIN, ENTRY, 1, 24, 4, 0x7fffffff, { "a/code.py", "which deflate cannot do" } },
    { PLAIN, ENTRY, 1, 24, 4, 0xffffffff, { "a/code.py", "needs a zip64 field" } },
    { PLAIN, ENTRY, 1, 20, 4, 0xffffffff, { "a/code.py", "needs a zip64 field" } },
    { PLAIN, ENTRY, 1, 42, 4, 0xffffffff, { "a/code.py", "needs a zip64 field" } },
    { PLAIN, ENTRY, 0, 28, 2, 0, { "name is empty" } },
    { PLAIN, ENTRY, 0, 28, 2, 65535, { "does not fit in the rest of the directory" } },
    { PLAIN, ENTRY, 3, 30, 2, 1, { "does not fit in the rest of the directory" } },
    { PLAIN, ENTRY, 3, 32, 2, 1, { "does not fit in the rest of the directory" } },
    { PLAIN, ENTRY, 0, 28, 2, 9, { "no member's entry" } },
    { PLAIN, ENTRY, 0, 34, 2, 1, { "a/data.pkl", "part 2 of an archive" } },
    { PLAIN, ENTRY, 0, 42, 4, 1, { "1 bytes before its first member" } },
    { PLAIN, ENTRY, 1, 42, 4, 1, { "members a/data.pkl and a/code.py overlap" } },
    { PLAIN, ENTRY, 1, 42, 4, 0x7fffffff, { "a/code.py", "reaches into the directory" } },
    { PLAIN, ENTRY, 0, 46, 1, 'b', { "b/data.pkl", "about its name" } },
    { PLAIN, ENTRY, 0, 47, 1, 0, { "name", "holds a NUL" } },
    { PLAIN, ENTRY, 0, 47, 1, 0xe9, { "name of member a", "is said to be UTF-8" } },
    { PLAIN, ENTRY, 3, 53, 1, '/', { "a/data//", "holds 200 bytes" } },
    { PLAIN, LOCAL, 1, 0, 1, 'Q', { "a/code.py", "has no header at" } },
    { PLAIN, LOCAL, 1, 6, 2, 0x0801, { "a/code.py", "about its flags" } },
    { PLAIN, LOCAL, 1, 6, 2, 0x0808, { "a/code.py", "about its flags" } },
    { PLAIN, LOCAL, 1, 8, 2, 0, { "a/code.py", "about its method" } },
    { PLAIN, LOCAL, 1, 14, 1, 0x55, { "a/code.py", "about its checksum" } },
    { PLAIN, LOCAL, 1, 18, 4, 7, { "a/code.py", "about its size" } },
    { PLAIN, LOCAL, 1, 22, 4, 7, { "a/code.py", "about its size" } },
    { PLAIN, LOCAL, 1, 22, 4, 0xffffffff, { "a/code.py", "about its size" } },
    { PLAIN, LOCAL, 1, 26, 2, 8, { "a/code.py", "about its name" } },
    { PLAIN, LOCAL, 1, 30, 1, 'A', { "a/code.py", "about its name" } },
    { PLAIN, LOCAL, 3, 28, 2, 1, { "a/data/0", "reaches into the directory" } },
    { PLAIN, LOCAL, 1, 28, 2, 60000, { "a/code.py", "reaches into the directory" } },
    { PLAIN, LOCAL, 1, 28, 2, 1, { "members a/code.py and a/none overlap" } },
    { WIDE, ENTRY, 3, 46 + 8, 2, 2, { "a/data/0", "needs a zip64 field" } },
    { WIDE, ENTRY, 3, 46 + 8 + 2, 2, 23, { "a/data/0", "needs a zip64 field" } },
    { WIDE, ENTRY, 3, 46 + 8 + 2, 2, 25, { "a/data/0", "needs a zip64 field" } },
    { WIDE, ENTRY, 3, 46 + 8 + 4, 8, 1ull << 63, { "a/data/0", "9223372036854775808 outside" } },
    { WIDE, ENTRY, 1, 46 + 9 + 4, 8, 1ull << 63, { "a/code.py", "which deflate cannot do" } },
    { WIDE, ENTRY, 1, 46 + 9 + 4, 8, UINT64_MAX, { "a/code.py", "which deflate cannot do" } },
    { WIDE, ENTRY, 1, 46 + 9 + 12, 8, 1ull << 63, { "a/code.py", "the whole file has only" } },
    { WIDE, ENTRY, 1, 46 + 9 + 12, 8, UINT64_MAX, { "a/code.py", "the whole file has only" } },
    { WIDE, ENTRY, 3, 46 + 8 + 20, 8, 1ull << 63, { "a/data/0", "reaches into the directory" } },
    { WIDE, ENTRY, 3, 46 + 8 + 20, 8, UINT64_MAX, { "a/data/0", "reaches into the directory" } },
    { WIDE, LOCAL, 3, 30 + 8, 2, 2, { "a/data/0", "about its size" } },
    { WIDE, LOCAL, 3, 30 + 8 + 2, 2, 17, { "a/data/0", "about its size" } },
    { WIDE, LOCAL, 3, 30 + 8 + 4, 8, 1ull << 63, { "a/data/0", "about its size" } },
    { WIDE, LOCAL, 3, 30 + 8 + 12, 8, 1ull << 63, { "a/data/0", "about its size" } },
    { PLAIN, END, 0, 0, 1, 'Q', { "does not end as a zip archive does" } },
    { PLAIN, END, 0, 20, 2, 1, { "does not end as a zip archive does" } },
    { PLAIN, END, 0, 4, 2, 1, { "several files" } },
    { PLAIN, END, 0, 6, 2, 1, { "several files" } },
    { PLAIN, END, 0, 8, 2, 3, { "several files" } },
    { PLAIN, END, 0, 8, 4, 0x00030003, { "more than its 3 members need" } },
    { PLAIN, END, 0, 8, 4, 0x00050005, { "5 members do not fit" } },
    { WIDE, END, 0, 8, 4, 0x00050005, { "no member's entry 0 bytes before the end" } },
    { PLAIN, END, 0, 8, 4, 0xffffffff, { "65535 members do not fit" } },
    { PLAIN, END, 0, 12, 4, 0xffffffff, { "does not end at" } },
    { PLAIN, END, 0, 12, 4, 1, { "does not end at" } },
    { PLAIN, END, 0, 16, 4, 0xffffffff, { "does not end at" } },
    { PLAIN, END, 0, 16, 4, 1, { "does not end at" } },
    { TORCH, END, 0, 8, 2, 3, { "zip64 record disagree" } },
    { TORCH, END, 0, 10, 2, 3, { "zip64 record disagree" } },
    { TORCH, END, 0, 12, 4, 3, { "zip64 record disagree" } },
    { TORCH, END, 0, 16, 4, 3, { "zip64 record disagree" } },
    { TORCH, END, 0, 4, 2, 1, { "zip64 record disagree" } },
    { TORCH, END, 0, 6, 2, 1, { "zip64 record disagree" } },
    { TORCH, LOCATOR, 0, 0, 1, 'Q', { "does not end at" } },
    { TORCH, LOCATOR, 0, 4, 4, 1, { "several files" } },
    { TORCH, LOCATOR, 0, 16, 4, 2, { "several files" } },
    { TORCH, LOCATOR, 0, 8, 8, 1ull << 63, { "record is said to be at 9223372036854775808" } },
    { TORCH, LOCATOR, 0, 8, 8, UINT64_MAX, { "zip64 record is said to be at" } },
    { TORCH, LOCATOR, 0, 8, 8, 1, { "no whole zip64 record at 1" } },
    { TORCH, RECORD, 0, 0, 1, 'Q', { "no whole zip64 record" } },
    { TORCH, RECORD, 0, 4, 8, 43, { "no whole zip64 record" } },
    { TORCH, RECORD, 0, 4, 8, UINT64_MAX - 11, { "no whole zip64 record" } },
    { TORCH, RECORD, 0, 16, 4, 1, { "several files" } },
    { TORCH, RECORD, 0, 20, 4, 1, { "several files" } },
    { TORCH, RECORD, 0, 24, 8, 3, { "several files" } },
};

static void build_form(zip_builder *built, archive_form form)
{
    if (form == TORCH)
        zip_builder_start_torch(built);
    else
        zip_builder_start(built);
    built->zip64 = form == WIDE;
    add_sample(built);
    zip_builder_finish(built);
}

static void every_wrong_number_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BROKEN / sizeof *BROKEN; i++) {
        zip_builder built;
        build_form(&built, BROKEN[i].form);
        const zip_builder_member *member = &built.member[BROKEN[i].member];
        const size_t parts[] = { (size_t)member->header, member->entry, built.record,
                                 built.locator, built.end };
        char what[80];
        snprintf(what, sizeof what, "broken archive %zu", i);
        zip_builder_patch(&built, parts[BROKEN[i].part] + (size_t)BROKEN[i].offset,
                          BROKEN[i].width, BROKEN[i].value);
        must_refuse_built(what, &built, BROKEN[i].says[0], BROKEN[i].says[1]);
        zip_builder_free(&built);
    }
}

/* Numbers of the zip64 record that the end record leaves open. */
static void absurd_numbers_in_the_zip64_record_are_refused(void **state)
{
    (void)state;
    static const struct { int offset; uint64_t value; const char *says; } cases[] = {
        { 24, 1ull << 63, "9223372036854775808 members do not fit" },
        { 24, UINT64_MAX, "members do not fit" }, { 24, 3, "more than its 3 members need" },
        { 40, 1ull << 63, "a directory of 9223372036854775808 bytes" },
        { 40, UINT64_MAX, "does not end at" }, { 48, 1ull << 63, "at 9223372036854775808" },
        { 48, UINT64_MAX, "does not end at" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zip_builder built;
        build_form(&built, TORCH);
        zip_builder_patch(&built, built.end + 4, 8, UINT64_MAX);
        zip_builder_patch(&built, built.end + 12, 8, UINT64_MAX);
        zip_builder_patch(&built, built.record + (size_t)cases[i].offset, 8, cases[i].value);
        if (cases[i].offset == 24)
            zip_builder_patch(&built, built.record + 32, 8, cases[i].value);
        must_refuse_built("record", &built, cases[i].says, NULL);
        zip_builder_free(&built);
    }
}

/* -- Reading what is not there --------------------------------------------------------------- */

static void reading_outside_a_member_is_an_error(void **state)
{
    (void)state;
    zip_builder built;
    unsigned char out[SAMPLE_TEXT], *data = out;
    flatclip_error err;
    build_form(&built, TORCH);
    const int file = file_of(built.data, built.bytes);
    fc_zip *zip = open_good(file);
    const fc_zip_member *stored = fc_zip_find(zip, "a/data/0");
    const fc_zip_member *deflated = fc_zip_find(zip, "a/code.py");

    assert_int_equal(fc_zip_read(zip, stored, SAMPLE_DATA, 0, out, &err), FLATCLIP_OK);
    check_refusal("past the end", fc_zip_read(zip, stored, 1, SAMPLE_DATA, out, &err),
                  FLATCLIP_ERR_ARGUMENT, &err,
                  (const char *const[]){ "a/data/0 has 200 bytes", "cannot read 200 from 1" });
    check_refusal("far past the end", fc_zip_read(zip, stored, UINT64_MAX, 2, out, &err),
                  FLATCLIP_ERR_ARGUMENT, &err, (const char *const[]){ "a/data/0", "cannot read" });
    check_refusal("deflated", fc_zip_read(zip, deflated, 0, 1, out, &err), FLATCLIP_ERR_ARGUMENT,
                  &err, (const char *const[]){ "a/code.py is deflated", "only be read whole" });
    check_refusal("limit", fc_zip_read_whole(zip, deflated, 2999, &data, &err),
                  FLATCLIP_ERR_FORMAT, &err,
                  (const char *const[]){ "a/code.py has 3000 bytes", "the limit is 2999" });
    assert_null(data);
    assert_int_equal(ftruncate(file, (off_t)stored->offset + 3), 0);
    check_refusal("cut", fc_zip_read(zip, stored, 0, SAMPLE_DATA, out, &err), FLATCLIP_ERR_IO,
                  &err, (const char *const[]){ "the file ends early", "a/data/0" });
    check_refusal("cut", fc_zip_verify(zip, stored, &err), FLATCLIP_ERR_IO, &err,
                  (const char *const[]){ "the file ends early", "a/data/0" });
    read_errno = EIO;
    check_refusal("broken disk", fc_zip_read_whole(zip, deflated, 5000, &data, &err),
                  FLATCLIP_ERR_IO, &err,
                  (const char *const[]){ "cannot read a/code.py", strerror(EIO) });
    read_errno = 0;
    fc_zip_close(zip);
    close(file);
    zip_builder_free(&built);
}

static void what_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    fc_zip *zip;
    flatclip_error err;
    const int folder = open(".", O_RDONLY | O_DIRECTORY);
    check_refusal("folder", fc_zip_open(folder, ZIP_NAME, &zip, &err), FLATCLIP_ERR_IO, &err,
                  (const char *const[]){ "not a regular file", NULL });
    close(folder);
    check_refusal("closed", fc_zip_open(folder, ZIP_NAME, &zip, &err), FLATCLIP_ERR_IO, &err,
                  (const char *const[]){ "cannot open", NULL });
    fc_zip_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_an_archive_reads_the_same),
        cmocka_unit_test(reads_that_are_short_or_interrupted_are_continued),
        cmocka_unit_test(aligned_members_begin_at_multiples_of_64),
        cmocka_unit_test(the_longest_comment_and_an_empty_archive_are_read),
        cmocka_unit_test(members_come_in_the_order_of_the_file),
        cmocka_unit_test(folders_and_names_in_any_script_are_members),
        cmocka_unit_test(checkpoints_of_torch_verify_and_read),
        cmocka_unit_test(every_wrong_number_is_refused_by_name),
        cmocka_unit_test(absurd_numbers_in_the_zip64_record_are_refused),
        cmocka_unit_test(reading_outside_a_member_is_an_error),
        cmocka_unit_test(what_is_no_regular_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
