/* Formats are told by content, from as little as 32 bytes, and texts are not mistaken for them. */
#include "tests/golden.h"

#include "flatclip.h"

static const char *format_of(const char *bytes, size_t count)
{
    const char *name = flatclip_image_format(bytes, count);
    return name ? name : "none";
}

#define EXPECT(name, bytes) assert_string_equal(format_of(bytes, sizeof bytes - 1), name)

static void known_formats_are_named(void **state)
{
    (void)state;
    EXPECT("JPEG", "\xff\xd8\xff\xe0");
    EXPECT("PNG", "\x89PNG\r\n\x1a\n");
    EXPECT("GIF", "GIF89a\1\0");
    EXPECT("GIF", "GIF87a");
    EXPECT("WebP", "RIFF\x10\0\0\0WEBPVP8 ");
    EXPECT("TIFF", "II*\0\x08\0\0\0");
    EXPECT("TIFF", "MM\0*\0\0\0\x08");
    EXPECT("BMP", "BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0");
    EXPECT("HEIC", "\0\0\0\x18" "ftypheic\0\0\0\0mif1heic");
    EXPECT("HEIC", "\0\0\0\x18" "ftypmif1\0\0\0\0mif1heic");
    EXPECT("AVIF", "\0\0\0\x1c" "ftypavif\0\0\0\0mif1avif");
    EXPECT("AVIF", "\0\0\0\x1c" "ftypmif1\0\0\0\0mif1avif");
    EXPECT("JPEG 2000", "\0\0\0\x0cjP  \r\n\x87\n");
    EXPECT("JPEG XL", "\xff\x0a\xfa\x1f");
    EXPECT("ICO", "\0\0\1\0\1\0");
    EXPECT("PSD", "8BPS\0\1");
    EXPECT("PDF", "%PDF-1.7");
    EXPECT("SVG", "<svg xmlns=");
    EXPECT("PNM", "P6\n4 4\n255\n");
}

static void other_content_is_not(void **state)
{
    (void)state;
    EXPECT("none", "");
    EXPECT("none", "hello");
    EXPECT("none", "BM is how this text begins");
    EXPECT("none", "P9 is not one of them");
    EXPECT("none", "RIFF\x10\0\0\0WAVEfmt ");
    EXPECT("none", "\0\0\0\x18" "ftypisom\0\0\0\0isomavc1");
    EXPECT("none", "GIF90a");
    assert_null(flatclip_image_format(NULL, 0));
}

static void a_cut_signature_is_no_format(void **state)
{
    static const char png[] = "\x89PNG\r\n\x1a\n";
    (void)state;
    for (size_t count = 0; count < 8; count++)
        assert_string_equal(format_of(png, count), "none");
}

static void the_name_of_a_file_says_nothing(void **state)
{
    static const char *const files[][2] = {
        { "tests/data/images/good/cat_jpeg_named.png", "JPEG" },
        { "tests/data/cases/gif_named.jpg", "GIF" },
        { "tests/data/cases/webp_named.jpg", "WebP" },
        { "tests/data/cases/text.jpg", "none" },
    };
    (void)state;
    for (int i = 0; i < 4; i++) {
        golden_bytes file = golden_read(files[i][0]);
        assert_string_equal(format_of((const char *)file.data, file.bytes < 32 ? file.bytes : 32),
                            files[i][1]);
        free(file.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_formats_are_named),
        cmocka_unit_test(other_content_is_not),
        cmocka_unit_test(a_cut_signature_is_no_format),
        cmocka_unit_test(the_name_of_a_file_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
