/* Damaged and hostile files: every one ends in pixels or in an error with a message, never in a
 * crash; and the worker is as good as new afterwards. */
#include "engine/image/exif.h"
#include "tests/test_image_worker.h"

#include <zlib.h>

#define GOOD "tests/data/images/good/"

/* An outcome that damage may have. */
static void expect_sane(const image_worker *w, flatclip_status status)
{
    switch (status) {
    case FLATCLIP_OK: break;
    case FLATCLIP_ERR_IMAGE_EMPTY:
    case FLATCLIP_ERR_IMAGE_UNKNOWN:
    case FLATCLIP_ERR_IMAGE_UNSUPPORTED:
    case FLATCLIP_ERR_IMAGE_TRUNCATED:
    case FLATCLIP_ERR_IMAGE_CORRUPT:
    case FLATCLIP_ERR_IMAGE_TOO_LARGE:
        assert_int_equal(w->err.status, status);
        assert_true(strlen(w->err.message) > 10);
        break;
    default: fail_msg("unexpected status %d: %s", status, w->err.message);
    }
}

static image_worker open_worker(int exif_rotate)
{
    fc_preprocess_options options = image_options(FLATCLIP_RECIPE_OPENAI);
    options.exif_rotate = exif_rotate;
    options.max_pixels = 4000000; /* random headers must not cost much */
    if (fc_isa_supported(FC_ISA_AVX2))
        options.isa = FC_ISA_AVX2;
    return image_worker_open(options);
}

static const char *const victims[] = {
    GOOD "cat_q20.jpg",      GOOD "cat_cmyk.jpg",      GOOD "cat_exif6.jpg",
    GOOD "size_223x225.png", GOOD "cat_palette2.png",  GOOD "cat_1bit.png",
    GOOD "thin_3x300.png",   GOOD "cat_interlaced.png", "tests/data/cases/prog.jpg",
};
enum { VICTIMS = sizeof victims / sizeof *victims };

static void a_file_cut_anywhere_is_truncated(void **state)
{
    (void)state;
    image_worker w = open_worker(1);
    for (int v = 0; v < VICTIMS; v++) {
        golden_bytes file = golden_read(victims[v]);
        const int is_png = file.data[0] == 0x89;
        const size_t step = file.bytes / 150 + 1;
        /* A PNG without its last chunk, IEND, is whole. */
        const size_t whole = is_png ? file.bytes - 12 : file.bytes;
        for (size_t cut = 9; cut < whole; cut += step) {
            /* A copy that ends where the data do, so that a sanitizer sees what is beyond. */
            uint8_t *part = malloc(cut);
            memcpy(part, file.data, cut);
            const flatclip_status status = image_bytes(&w, part, cut);
            if (status != FLATCLIP_ERR_IMAGE_TRUNCATED)
                fail_msg("%s cut at %zu: status %d: %s", victims[v], cut, status, w.err.message);
            free(part);
        }
        assert_int_equal(image_bytes(&w, file.data, whole), FLATCLIP_OK);
        free(file.data);
    }
    image_worker_close(&w);
}

static void the_first_and_the_last_bytes_matter_one_by_one(void **state)
{
    (void)state;
    image_worker w = open_worker(0);
    for (int v = 0; v < VICTIMS; v += 3) {
        golden_bytes file = golden_read(victims[v]);
        for (size_t cut = 0; cut < 60; cut++) {
            assert_int_not_equal(image_bytes(&w, file.data, cut), FLATCLIP_OK);
            expect_sane(&w, w.err.status);
        }
        const size_t needless = file.data[0] == 0x89 ? 12 : 0; /* PNG's IEND chunk */
        for (size_t left = 1; left < 30; left++)
            assert_int_equal(image_bytes(&w, file.data, file.bytes - left),
                             left <= needless ? FLATCLIP_OK : FLATCLIP_ERR_IMAGE_TRUNCATED);
        free(file.data);
    }
    image_worker_close(&w);
}

static void flipped_bytes_never_crash(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    image_worker w = open_worker(1);
    for (int v = 0; v < VICTIMS; v++) {
        golden_bytes file = golden_read(victims[v]);
        uint8_t *kept = malloc(file.bytes);
        memcpy(kept, file.data, file.bytes);
        for (int round = 0; round < 120; round++) {
            const int flips = 1 + (int)(next_random(&seed) % 8);
            /* Half of them in the first part of the file, where the structure is. */
            const size_t range = round % 2 ? file.bytes : file.bytes / 20 + 40;
            for (int i = 0; i < flips; i++)
                file.data[next_random(&seed) % range] = (uint8_t)next_random(&seed);
            expect_sane(&w, image_bytes(&w, file.data, file.bytes));
            memcpy(file.data, kept, file.bytes);
        }
        free(kept);
        free(file.data);
    }
    image_worker_close(&w);
}

/* -- PNG made by hand: damage that checksums cannot show --------------------------------------- */

typedef struct {
    uint8_t bytes[4096];
    size_t count;
} made_png;

static void put_number(made_png *png, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        png->bytes[png->count++] = (uint8_t)(value >> shift);
}

static void put_chunk(made_png *png, const char *type, const void *data, size_t count)
{
    put_number(png, (uint32_t)count);
    const size_t begin = png->count;
    memcpy(png->bytes + png->count, type, 4);
    if (count)
        memcpy(png->bytes + png->count + 4, data, count);
    png->count += 4 + count;
    put_number(png, (uint32_t)crc32(0, png->bytes + begin, (uInt)(4 + count)));
}

static made_png begin_png(uint32_t width, uint32_t height, int depth, int colour_type)
{
    made_png png = { .count = 0 };
    memcpy(png.bytes, "\x89PNG\r\n\x1a\n", 8);
    png.count = 8;
    made_png header = { .count = 0 };
    put_number(&header, width);
    put_number(&header, height);
    const uint8_t rest[5] = { (uint8_t)depth, (uint8_t)colour_type, 0, 0, 0 };
    memcpy(header.bytes + 8, rest, 5);
    put_chunk(&png, "IHDR", header.bytes, 13);
    return png;
}

/* Grey pixels, all of one value, compressed. damage: bytes at the end of the stream to spoil. */
static void put_pixels(made_png *png, int width, int height, int damage)
{
    uint8_t raw[2048] = { 0 }, packed[1024];
    uLongf packed_bytes = sizeof packed;
    for (int y = 0; y < height; y++)
        memset(raw + y * (width + 1) + 1, 77, (size_t)width);
    assert_int_equal(compress(packed, &packed_bytes, raw, (uLong)(height * (width + 1))), Z_OK);
    for (int i = 1; i <= damage; i++)
        packed[packed_bytes - (uLong)i] ^= 0xff;
    put_chunk(png, "IDAT", packed, packed_bytes);
}

static void expect_made(const made_png *png, flatclip_status status, const char *says)
{
    image_worker w = open_worker(1);
    const flatclip_status got = image_bytes(&w, png->bytes, png->count);
    if (got != status || !strstr(w.err.message, says))
        fail_msg("status %d, expected %d saying '%s': %s", got, status, says, w.err.message);
    image_worker_close(&w);
}

static void a_minimal_png_is_read(void **state)
{
    (void)state;
    made_png png = begin_png(5, 4, 8, 0);
    put_chunk(&png, "tEXt", "a\0b", 3);
    put_pixels(&png, 5, 4, 0);
    expect_made(&png, FLATCLIP_OK, "");
}

static void a_wrong_checksum_of_pixels_or_of_a_comment_is_corrupt(void **state)
{
    (void)state;
    made_png png = begin_png(5, 4, 8, 0);
    put_pixels(&png, 5, 4, 1); /* zlib's own checksum */
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "checksum");
    png = begin_png(5, 4, 8, 0);
    put_chunk(&png, "tEXt", "a\0b", 3);
    png.bytes[png.count - 1] ^= 1;
    put_pixels(&png, 5, 4, 0);
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "tEXt");
}

static void badly_made_pngs_are_named_for_what_is_wrong(void **state)
{
    (void)state;
    made_png png = begin_png(5, 4, 8, 0);
    put_pixels(&png, 5, 2, 0);
    put_chunk(&png, "IEND", NULL, 0);
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "Not enough image data");
    png = begin_png(5, 4, 8, 5);
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "colour type 5");
    png = begin_png(5, 4, 3, 0);
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "depth of 3");
    png = begin_png(5, 4, 16, 3);
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "depth of 16");
    png = begin_png(5, 4, 8, 3);
    put_pixels(&png, 5, 4, 0);
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "PLTE");
    png = begin_png(5, 4, 8, 0);
    put_chunk(&png, "ABCD", "?", 1);
    expect_made(&png, FLATCLIP_ERR_IMAGE_UNSUPPORTED, "ABCD");
    png = begin_png(5, 4, 8, 0);
    memcpy(png.bytes + png.count, "\xff\xff\xff\xff" "IDAT", 8);
    png.count += 8;
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "length");
    png = begin_png(0x80000000u, 1, 8, 0);
    expect_made(&png, FLATCLIP_ERR_IMAGE_CORRUPT, "width 2147483648");
    png = begin_png(5, 4, 8, 0);
    memcpy(png.bytes + 12, "CgBI", 4);
    expect_made(&png, FLATCLIP_ERR_IMAGE_UNSUPPORTED, "Apple");
}

/* -- EXIF -------------------------------------------------------------------------------------- */

static void exif_is_read_in_both_byte_orders(void **state)
{
    (void)state;
    static const uint8_t little[] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
    static const uint8_t big[] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0";
    assert_int_equal(fc_exif_orientation(little, sizeof little - 1), 6);
    assert_int_equal(fc_exif_orientation(big, sizeof big - 1), 6);
}

static void nonsense_in_exif_means_upright(void **state)
{
    static const uint8_t good[] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
    enum { BYTES = sizeof good - 1 };
    (void)state;
    uint64_t seed = test_seed();
    /* The two bytes of padding after the value are not needed. */
    for (size_t cut = 0; cut < BYTES - 2; cut++) {
        uint8_t *part = malloc(cut + 1);
        memcpy(part, good, cut);
        assert_int_equal(fc_exif_orientation(part, cut), 1);
        free(part);
    }
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[BYTES];
        memcpy(bytes, good, BYTES);
        for (int i = 0; i < 3; i++)
            bytes[next_random(&seed) % BYTES] = (uint8_t)next_random(&seed);
        assert_in_range(fc_exif_orientation(bytes, BYTES), 1, 8);
    }
    uint8_t value_nine[BYTES];
    memcpy(value_nine, good, BYTES);
    value_nine[18] = 9;
    assert_int_equal(fc_exif_orientation(value_nine, BYTES), 1);
}

/* A picture of two rows, black and white, with the given EXIF chunk before or after the pixels. */
static made_png two_rows(const uint8_t *exif, size_t exif_bytes, int is_late)
{
    uint8_t packed[100];
    uLongf packed_bytes = sizeof packed;
    const uint8_t raw[8] = { 0, 0, 0, 0, 0, 255, 255, 255 };
    made_png png = begin_png(3, 2, 8, 0);
    assert_int_equal(compress(packed, &packed_bytes, raw, sizeof raw), Z_OK);
    if (!is_late)
        put_chunk(&png, "eXIf", exif, exif_bytes);
    put_chunk(&png, "IDAT", packed, packed_bytes);
    if (is_late)
        put_chunk(&png, "eXIf", exif, exif_bytes);
    return png;
}

static void exif_of_a_png_counts_before_and_after_the_pixels(void **state)
{
    static const uint8_t turn_half[] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x03\0\0\0";
    (void)state;
    image_worker turned = open_worker(1), ignored = open_worker(0);
    for (int is_late = 0; is_late < 2; is_late++) {
        const made_png png = two_rows(turn_half, sizeof turn_half - 1, is_late);
        assert_int_equal(image_bytes(&turned, png.bytes, png.count), FLATCLIP_OK);
        assert_int_equal(image_bytes(&ignored, png.bytes, png.count), FLATCLIP_OK);
        assert_true(ignored.out[0] < 50 && ignored.out[PIXEL_BYTES - 1] > 200);
        assert_true(turned.out[0] > 200 && turned.out[PIXEL_BYTES - 1] < 50);
    }
    image_worker_close(&ignored);
    image_worker_close(&turned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_cut_anywhere_is_truncated),
        cmocka_unit_test(the_first_and_the_last_bytes_matter_one_by_one),
        cmocka_unit_test(flipped_bytes_never_crash),
        cmocka_unit_test(a_minimal_png_is_read),
        cmocka_unit_test(a_wrong_checksum_of_pixels_or_of_a_comment_is_corrupt),
        cmocka_unit_test(badly_made_pngs_are_named_for_what_is_wrong),
        cmocka_unit_test(exif_is_read_in_both_byte_orders),
        cmocka_unit_test(nonsense_in_exif_means_upright),
        cmocka_unit_test(exif_of_a_png_counts_before_and_after_the_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
