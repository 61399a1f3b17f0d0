/* What the tests of the zip reader share: archives of bytes opened by descriptor, and a small good
 * one to start from. */
#ifndef ZIP_FIXTURE_H
#define ZIP_FIXTURE_H

#include "tests/zip_builder.h"

#include <sys/mman.h>
#include <unistd.h>

#include "weights_tools/zip.h"

#define ZIP_NAME "some.pt" /* stands for the path in messages */

/* A file in memory; its end is at bytes. The caller closes it. */
static inline int file_of(const void *data, size_t bytes)
{
    const int file = memfd_create("zip", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(write(file, data, bytes), bytes);
    return file;
}

/* Opens the archive, or fails the test with the reader's message. */
static inline fc_zip *open_good(int file)
{
    fc_zip *zip = NULL;
    flatclip_error err = { FLATCLIP_OK, "" };
    if (fc_zip_open(file, ZIP_NAME, &zip, &err) != FLATCLIP_OK)
        fail_msg("refused: %s", err.message);
    assert_non_null(zip);
    return zip;
}

/* Fails the test unless status is expected and the message names the archive and says all parts. */
static inline void check_refusal(const char *what, flatclip_status status,
                                 flatclip_status expected, const flatclip_error *err,
                                 const char *const says[2])
{
    if (status != expected)
        fail_msg("%s: %s, expected %s", what, flatclip_status_name(status),
                 flatclip_status_name(expected));
    assert_int_equal(err->status, expected);
    if (!strstr(err->message, ZIP_NAME))
        fail_msg("%s: \"%s\" does not name the archive", what, err->message);
    for (int i = 0; i < 2 && says[i]; i++)
        if (!strstr(err->message, says[i]))
            fail_msg("%s: \"%s\" does not say \"%s\"", what, err->message, says[i]);
}

/* Fails the test unless opening these bytes is refused as FORMAT. */
static inline void must_refuse(const char *what, const void *data, size_t bytes,
                               const char *says_this, const char *says_that)
{
    const char *const says[2] = { says_this, says_that };
    flatclip_error err = { FLATCLIP_OK, "" };
    fc_zip *zip = (fc_zip *)&err;
    const int file = file_of(data, bytes);
    const flatclip_status status = fc_zip_open(file, ZIP_NAME, &zip, &err);
    check_refusal(what, status, FLATCLIP_ERR_FORMAT, &err, says);
    assert_null(zip);
    close(file);
}

static inline void must_refuse_built(const char *what, const zip_builder *built,
                                     const char *says_this, const char *says_that)
{
    must_refuse(what, built->data, built->bytes, says_this, says_that);
}

/* -- A small archive ------------------------------------------------------------------------- */

enum { SAMPLE_MEMBERS = 4, SAMPLE_TEXT = 3000, SAMPLE_DATA = 200 };

static inline size_t sample_bytes(int member)
{
    static const size_t bytes[SAMPLE_MEMBERS] = { 5, SAMPLE_TEXT, 0, SAMPLE_DATA };
    return bytes[member];
}

static inline const char *sample_name(int member)
{
    static const char *const names[SAMPLE_MEMBERS] = { "a/data.pkl", "a/code.py", "a/none",
                                                       "a/data/0" };
    return names[member];
}

/* What sample member holds, in out [SAMPLE_TEXT]. */
static inline void sample_fill(int member, unsigned char *out)
{
    for (size_t i = 0; i < sample_bytes(member); i++)
        out[i] = member == 3 ? (unsigned char)(31 * i + 7)
                             : (unsigned char)"return x"[i * i % 61 % 8];
}

/* Adds the sample's members, code.py deflated, by the builder's other knobs. */
static inline void add_sample(zip_builder *zip)
{
    for (int i = 0; i < SAMPLE_MEMBERS; i++) {
        unsigned char data[SAMPLE_TEXT];
        sample_fill(i, data);
        zip->deflated = i == 1;
        zip_builder_add(zip, sample_name(i), data, sample_bytes(i));
    }
}

/* Reads every member of an opened sample, and fails the test unless it holds what was put in. */
static inline void check_sample(const fc_zip *zip)
{
    assert_int_equal(fc_zip_count(zip), SAMPLE_MEMBERS);
    for (int i = 0; i < SAMPLE_MEMBERS; i++) {
        unsigned char expected[SAMPLE_TEXT], *data;
        flatclip_error err = { FLATCLIP_OK, "" };
        const fc_zip_member *member = fc_zip_find(zip, sample_name(i));
        sample_fill(i, expected);
        assert_ptr_equal(member, fc_zip_at(zip, (size_t)i));
        assert_int_equal(member->bytes, sample_bytes(i));
        assert_int_equal(member->deflated, i == 1);
        if (fc_zip_read_whole(zip, member, SAMPLE_TEXT, &data, &err) != FLATCLIP_OK ||
            fc_zip_verify(zip, member, &err) != FLATCLIP_OK)
            fail_msg("%s: %s", member->name, err.message);
        assert_memory_equal(data, expected, sample_bytes(i));
        assert_int_equal(data[sample_bytes(i)], 0);
        free(data);
    }
}

#endif
