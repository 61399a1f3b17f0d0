/* zip.c against archives made to break readers: cut, flipped, overlapping, swollen. What is
 * accepted holds what it should; nothing is read or taken beyond what was declared. */
#define _GNU_SOURCE
#include "tests/zip_fixture.h"

#include "tests/golden.h"

/* -- Damage ---------------------------------------------------------------------------------- */

static void an_archive_cut_anywhere_is_refused(void **state)
{
    (void)state;
    for (int torch = 0; torch < 2; torch++) {
        zip_builder built;
        if (torch)
            zip_builder_start_torch(&built);
        else
            zip_builder_start(&built);
        add_sample(&built);
        zip_builder_finish(&built);
        for (size_t bytes = 0; bytes < built.bytes; bytes++)
            must_refuse("cut", built.data, bytes, bytes < 22 ? "too short" : "cut short", NULL);
        zip_builder_free(&built);
    }
}

static void a_checkpoint_cut_at_every_thousandth_byte_is_refused(void **state)
{
    (void)state;
    static const char *const says[2] = { "cut short", NULL };
    const golden_bytes bytes = golden_read("tests/data/checkpoints/openai_jit_fp16.pt");
    const int file = file_of(bytes.data, bytes.bytes);
    for (size_t left = bytes.bytes / 1000 * 1000; left; left -= 1000) {
        fc_zip *zip;
        flatclip_error err;
        assert_int_equal(ftruncate(file, (off_t)left), 0);
        check_refusal("cut", fc_zip_open(file, ZIP_NAME, &zip, &err), FLATCLIP_ERR_FORMAT, &err,
                      says);
        assert_null(zip);
    }
    close(file);
    free(bytes.data);
}

/* Reads all that can be read; what is read whole must be what the sample holds. Returns how many
 * members that were. */
static int read_sample(const fc_zip *zip)
{
    int good = 0;
    assert_int_equal(fc_zip_count(zip), SAMPLE_MEMBERS);
    for (int i = 0; i < SAMPLE_MEMBERS; i++) {
        unsigned char expected[SAMPLE_TEXT], *data;
        flatclip_error err = { FLATCLIP_OK, "" };
        const fc_zip_member *member = fc_zip_at(zip, (size_t)i);
        const flatclip_status whole = fc_zip_read_whole(zip, member, SAMPLE_TEXT, &data, &err);
        assert_int_equal(fc_zip_verify(zip, member, NULL), whole);
        if (whole != FLATCLIP_OK) {
            assert_int_equal(whole, FLATCLIP_ERR_FORMAT);
            assert_non_null(strstr(err.message, member->name));
            continue;
        }
        sample_fill(i, expected);
        assert_string_equal(member->name, sample_name(i));
        assert_int_equal(member->bytes, sample_bytes(i));
        assert_memory_equal(data, expected, sample_bytes(i));
        free(data);
        good++;
    }
    return good;
}

static void a_flipped_bit_never_yields_other_bytes(void **state)
{
    (void)state;
    int refused = 0, damaged = 0, harmless = 0;
    for (int torch = 0; torch < 2; torch++) {
        zip_builder built;
        if (torch)
            zip_builder_start_torch(&built);
        else
            zip_builder_start(&built);
        add_sample(&built);
        zip_builder_finish(&built);
        for (size_t bit = 0; bit < 8 * built.bytes; bit++) {
            fc_zip *zip;
            built.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            const int file = file_of(built.data, built.bytes);
            if (fc_zip_open(file, ZIP_NAME, &zip, NULL) != FLATCLIP_OK)
                refused++;
            else if (read_sample(zip) < SAMPLE_MEMBERS)
                damaged++;
            else
                harmless++; /* dates, versions, attributes, padding */
            fc_zip_close(zip);
            close(file);
            built.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        zip_builder_free(&built);
    }
    print_message("%d archives refused, %d with a damaged member, %d read\n", refused, damaged,
                  harmless);
    assert_true(refused > 2000 && damaged > 2000 && harmless > 500);
}

static void what_lies_before_between_or_after_is_refused(void **state)
{
    (void)state;
    static const unsigned char junk[10] = "junkjunk!";
    for (int where = 0; where < 4; where++) {
        static const char *const says[] = { "put before it", "no member's entry", "cut short",
                                            "10 bytes before its first member" };
        zip_builder built;
        zip_builder_start(&built);
        if (where == 0 || where == 3)
            zip_builder_append(&built, junk, sizeof junk);
        add_sample(&built);
        if (where == 1)
            zip_builder_append(&built, junk, sizeof junk);
        zip_builder_finish(&built);
        if (where == 0) /* as if the junk had come afterwards: all offsets are short by it */
            zip_builder_patch(&built, built.end + 16, 4, built.directory - sizeof junk);
        if (where == 1)
            zip_builder_patch(&built, built.end + 12, 8,
                              (built.directory - sizeof junk) << 32 |
                              (built.end - built.directory + sizeof junk));
        if (where == 2)
            zip_builder_append(&built, junk, sizeof junk);
        must_refuse_built("junk", &built, says[where], NULL);
        zip_builder_free(&built);
    }
}

/* -- Overlaps -------------------------------------------------------------------------------- */

/* The directory lists one local header many times: each would inflate to the same bytes. */
static void members_that_share_a_header_are_refused(void **state)
{
    (void)state;
    static unsigned char zeros[100000];
    zip_builder built;
    zip_builder_start(&built);
    built.deflated = 1;
    const zip_builder_member *kernel = zip_builder_add(&built, "kernel", zeros, sizeof zeros);
    for (; built.count < 400; built.count++)
        built.member[built.count] = *kernel;
    zip_builder_finish(&built);
    must_refuse_built("quine", &built, "members kernel and kernel overlap", NULL);
    zip_builder_free(&built);
}

/* Each member's data holds the local headers and the data of all that follow, as stored blocks of
 * deflate could quote them: here outright, in stored members. */
static void members_inside_of_members_are_refused(void **state)
{
    (void)state;
    zip_builder inner, outer;
    unsigned char *data;
    zip_builder_start(&inner);
    add_sample(&inner);
    zip_builder_start(&outer);
    const size_t data_offset = 30 + strlen("outer");
    zip_builder_add(&outer, "outer", inner.data, inner.bytes);
    for (size_t i = 0; i < inner.count; i++) {
        outer.member[outer.count] = inner.member[i];
        outer.member[outer.count++].header += data_offset;
    }
    zip_builder_finish(&outer);
    must_refuse_built("nested", &outer, "members outer and a/data.pkl overlap", NULL);

    outer.bytes = outer.directory; /* without the inner ones' entries, the same bytes are good */
    outer.count = 1;
    zip_builder_finish(&outer);
    const int file = file_of(outer.data, outer.bytes);
    fc_zip *zip = open_good(file);
    assert_int_equal(fc_zip_read_whole(zip, fc_zip_at(zip, 0), inner.bytes, &data, NULL),
                     FLATCLIP_OK);
    assert_memory_equal(data, inner.data, inner.bytes);
    free(data);
    fc_zip_close(zip);
    close(file);
    zip_builder_free(&inner);
    zip_builder_free(&outer);
}

static void two_members_of_one_name_are_refused(void **state)
{
    (void)state;
    zip_builder built;
    zip_builder_start_torch(&built);
    add_sample(&built);
    zip_builder_add(&built, "a/none", "other", 5);
    zip_builder_finish(&built);
    must_refuse_built("twins", &built, "two members named a/none", NULL);
    zip_builder_free(&built);
}

static void a_member_that_reaches_into_the_directory_is_refused(void **state)
{
    (void)state;
    zip_builder built;
    zip_builder_start_torch(&built);
    add_sample(&built);
    built.member[3].bytes = built.member[3].packed = SAMPLE_DATA + 17; /* its descriptor has 16 */
    zip_builder_finish(&built);
    must_refuse_built("long", &built, "a/data/0", "reaches into the directory");
    zip_builder_free(&built);
}

/* -- Bombs ----------------------------------------------------------------------------------- */

/* Opens what is built, in which one member is said to have other sizes than it has, and checks that
 * reading it and verifying it both say so. */
static void must_read_as_damaged(zip_builder *built, const char *says)
{
    zip_builder_finish(built);
    const int file = file_of(built->data, built->bytes);
    fc_zip *zip = open_good(file);
    const fc_zip_member *member = fc_zip_at(zip, 0);
    unsigned char *data;
    flatclip_error err;
    const char *const parts[2] = { member->name, says };
    check_refusal("whole", fc_zip_read_whole(zip, member, UINT64_MAX, &data, &err),
                  FLATCLIP_ERR_FORMAT, &err, parts);
    assert_null(data);
    check_refusal("verify", fc_zip_verify(zip, member, &err), FLATCLIP_ERR_FORMAT, &err, parts);
    fc_zip_close(zip);
    close(file);
    zip_builder_free(built);
}

enum { BOMB = 40 << 20 };

static zip_builder_member *add_bomb(zip_builder *built)
{
    unsigned char *zeros = calloc(1, BOMB);
    assert_non_null(zeros);
    zip_builder_start_torch(built);
    built->deflated = 1;
    zip_builder_member *bomb = zip_builder_add(built, "bomb", zeros, BOMB);
    free(zeros);
    return bomb;
}

/* 42 kB that say they hold 4 GB: more than deflate can pack. */
static void a_bomb_that_claims_too_much_is_refused_when_opened(void **state)
{
    (void)state;
    zip_builder built;
    zip_builder_member *bomb = add_bomb(&built);
    assert_true(bomb->packed < 43000);
    bomb->bytes = UINT32_MAX - 1;
    zip_builder_finish(&built);
    must_refuse_built("bomb", &built, "bomb is said to inflate", "4294967294 bytes");
    zip_builder_free(&built);
}

/* One that says how large it is, is read if the caller allows so much; the most that is allowed
 * for its packed size is its own bound. */
static void an_honest_bomb_is_bounded_by_the_limit(void **state)
{
    (void)state;
    zip_builder built;
    unsigned char *data;
    flatclip_error err;
    const zip_builder_member *bomb = add_bomb(&built);
    assert_true(bomb->packed * 1032 > BOMB && bomb->packed * 1020 < BOMB);
    zip_builder_finish(&built);
    const int file = file_of(built.data, built.bytes);
    fc_zip *zip = open_good(file);
    check_refusal("limit", fc_zip_read_whole(zip, fc_zip_at(zip, 0), 1 << 20, &data, &err),
                  FLATCLIP_ERR_FORMAT, &err,
                  (const char *const[]){ "bomb has 41943040 bytes", "limit is 1048576" });
    assert_int_equal(fc_zip_verify(zip, fc_zip_at(zip, 0), NULL), FLATCLIP_OK);
    fc_zip_close(zip);
    close(file);
    zip_builder_free(&built);
}

static void a_bomb_that_hides_its_size_stops_at_what_it_declared(void **state)
{
    (void)state;
    zip_builder built;
    add_bomb(&built)->bytes = 1000;
    must_read_as_damaged(&built, "more than the directory says");
    add_bomb(&built)->bytes = 65535; /* a piece, and a byte less */
    must_read_as_damaged(&built, "more than the directory says");
    add_bomb(&built)->bytes = 65536;
    must_read_as_damaged(&built, "more than the directory says");
    add_bomb(&built)->bytes = 1000;
    built.member[0].packed -= 5000; /* reading on would come upon an end that is missing */
    must_read_as_damaged(&built, "more than the directory says");
    add_bomb(&built)->bytes = BOMB - 1;
    must_read_as_damaged(&built, "more than the directory says");
    add_bomb(&built)->bytes = 0;
    must_read_as_damaged(&built, "more than the directory says");
    add_bomb(&built)->bytes = BOMB + 1;
    must_read_as_damaged(&built, "less than the directory says");
}

static void deflated_data_must_be_whole_and_alone(void **state)
{
    (void)state;
    static const unsigned char text[] = "some text, some text, some text";
    for (int i = 0; i < 6; i++) {
        static const char *const says[] = { "has no end", "has no end", "follows its deflated",
                                            "is not valid", "has checksum", "has no checksum" };
        zip_builder built;
        zip_builder_start_torch(&built);
        built.deflated = i < 4;
        zip_builder_member *member = zip_builder_add(&built, "m", text, sizeof text);
        if (i == 0)
            member->packed--;
        else if (i == 1) /* and that is when the last bytes are still to come out */
            member->packed -= 3;
        else if (i == 2)
            member->packed++;
        else if (i == 3)
            built.data[member->data] = 7; /* a block of a kind that does not exist */
        else
            member->crc32 = i == 4 ? 1 : 0;
        must_read_as_damaged(&built, says[i]);
    }
}

/* A stream of two blocks that are not compressed, 65536 bytes in all, ends where the reader's piece
 * of input does; the member has one byte more. */
static void a_byte_after_the_stream_is_seen_at_the_edge_of_a_piece(void **state)
{
    (void)state;
    enum { PIECE = 65536, BLOCK = PIECE / 2 - 5 };
    static unsigned char packed[PIECE + 1];
    zip_builder built;
    for (int i = 0; i < 2; i++) {
        const unsigned char head[5] = { (unsigned char)i, BLOCK & 255, BLOCK >> 8,
                                        ~BLOCK & 255, ~BLOCK >> 8 & 255 };
        memcpy(packed + i * PIECE / 2, head, sizeof head);
    }
    zip_builder_start_torch(&built);
    zip_builder_member *member = zip_builder_add(&built, "m", packed, sizeof packed);
    built.data[member->header + 8] = 8;
    member->method = 8;
    member->bytes = 2 * BLOCK;
    must_read_as_damaged(&built, "something follows its deflated data");
}

/* Ratios right at the bound: 1032 bytes from one are still thought possible. */
static void the_bound_of_deflate_is_exact(void **state)
{
    (void)state;
    zip_builder built;
    unsigned char *data;
    flatclip_error err;
    for (int over = 0; over < 2; over++) {
        zip_builder_start_torch(&built);
        built.deflated = 1;
        zip_builder_member *member = zip_builder_add(&built, "m", "xxxxxxxxxx", 10);
        member->bytes = 1032 * member->packed + (uint64_t)over;
        zip_builder_finish(&built);
        if (over) {
            must_refuse_built("over", &built, "which deflate cannot do", NULL);
        } else {
            const int file = file_of(built.data, built.bytes);
            fc_zip *zip = open_good(file);
            check_refusal("at", fc_zip_read_whole(zip, fc_zip_at(zip, 0), 1 << 20, &data, &err),
                          FLATCLIP_ERR_FORMAT, &err,
                          (const char *const[]){ "less than the directory says", NULL });
            fc_zip_close(zip);
            close(file);
        }
        zip_builder_free(&built);
    }
}

/* More members than any checkpoint has: 17 MB of directory are too much, whatever they say. */
static void a_directory_over_the_limit_is_refused(void **state)
{
    (void)state;
    zip_builder built;
    unsigned char *much = calloc(1, (16 << 20) + 1);
    assert_non_null(much);
    zip_builder_start_torch(&built);
    zip_builder_append(&built, much, (16 << 20) + 1);
    zip_builder_finish(&built);
    zip_builder_patch(&built, built.record + 40, 8, (16 << 20) + 1);
    zip_builder_patch(&built, built.record + 48, 8, 0);
    zip_builder_patch(&built, built.end + 12, 8, UINT64_MAX);
    must_refuse_built("large", &built, "over the limit of 16777216", NULL);
    free(much);
    zip_builder_free(&built);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_archive_cut_anywhere_is_refused),
        cmocka_unit_test(a_checkpoint_cut_at_every_thousandth_byte_is_refused),
        cmocka_unit_test(a_flipped_bit_never_yields_other_bytes),
        cmocka_unit_test(what_lies_before_between_or_after_is_refused),
        cmocka_unit_test(members_that_share_a_header_are_refused),
        cmocka_unit_test(members_inside_of_members_are_refused),
        cmocka_unit_test(two_members_of_one_name_are_refused),
        cmocka_unit_test(a_member_that_reaches_into_the_directory_is_refused),
        cmocka_unit_test(a_bomb_that_claims_too_much_is_refused_when_opened),
        cmocka_unit_test(an_honest_bomb_is_bounded_by_the_limit),
        cmocka_unit_test(a_bomb_that_hides_its_size_stops_at_what_it_declared),
        cmocka_unit_test(deflated_data_must_be_whole_and_alone),
        cmocka_unit_test(a_byte_after_the_stream_is_seen_at_the_edge_of_a_piece),
        cmocka_unit_test(the_bound_of_deflate_is_exact),
        cmocka_unit_test(a_directory_over_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
