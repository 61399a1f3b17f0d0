/* Every golden picture, byte for byte, and every broken one with the error that it must give. */
#include "tests/test_image_worker.h"

#define DATA "tests/data/"

/* Runs each tensor's picture in folder and compares; returns how many there were. */
static int compare_all(const char *goldens, const char *folder, fc_preprocess_options options)
{
    golden g = golden_open(goldens);
    image_worker w = image_worker_open(options);
    int count = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, g.header) {
        const char *name = entry->string;
        char path[200];
        size_t bytes;
        if (strcmp(name, "__metadata__") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (image_file(&w, path) != FLATCLIP_OK)
            fail_msg("%s: %s", path, w.err.message);
        const uint8_t *expected = golden_tensor(&g, name, "U8", &bytes);
        assert_int_equal(bytes, PIXEL_BYTES);
        expect_pixels(path, w.out, expected);
        count++;
    }
    image_worker_close(&w);
    golden_close(&g);
    return count;
}

static void openai_recipe_equals_pillow_on_35_pictures(void **state)
{
    (void)state;
    FOR_EACH_ISA(isa) {
        fc_preprocess_options options = image_options(FLATCLIP_RECIPE_OPENAI);
        options.isa = isa;
        assert_int_equal(compare_all(DATA "pixels_openai.safetensors", DATA "images/good", options),
                         35);
    }
}

static void hf_recipe_equals_pillow_where_it_differs(void **state)
{
    (void)state;
    FOR_EACH_ISA(isa) {
        fc_preprocess_options options = image_options(FLATCLIP_RECIPE_HF);
        options.isa = isa;
        assert_int_equal(compare_all(DATA "pixels_hf.safetensors", DATA "images/good", options),
                         10);
    }
}

static void hf_recipe_equals_openai_elsewhere(void **state)
{
    (void)state;
    golden openai = golden_open(DATA "pixels_openai.safetensors");
    golden hf = golden_open(DATA "pixels_hf.safetensors");
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_HF));
    const cJSON *entry;
    cJSON_ArrayForEach(entry, openai.header) {
        const char *name = entry->string;
        char path[200];
        snprintf(path, sizeof path, DATA "images/good/%s", name);
        if (strcmp(name, "__metadata__") == 0 ||
            cJSON_GetObjectItemCaseSensitive(hf.header, name))
            continue;
        assert_int_equal(image_file(&w, path), FLATCLIP_OK);
        expect_pixels(path, w.out, golden_tensor(&openai, name, "U8", NULL));
    }
    image_worker_close(&w);
    golden_close(&hf);
    golden_close(&openai);
}

static void exif_rotate_turns_all_eight_orientations_upright(void **state)
{
    (void)state;
    FOR_EACH_ISA(isa) {
        fc_preprocess_options options = image_options(FLATCLIP_RECIPE_OPENAI);
        options.isa = isa;
        options.exif_rotate = 1;
        assert_int_equal(compare_all(DATA "pixels_exif.safetensors", DATA "exif", options),
                         8);
    }
}

static void bytes_in_memory_give_the_same_as_a_file(void **state)
{
    (void)state;
    const char *paths[] = { DATA "images/good/cat_420.jpg", DATA "images/good/cat_interlaced.png" };
    image_worker from_file = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    image_worker from_bytes = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    for (int i = 0; i < 2; i++) {
        golden_bytes file = golden_read(paths[i]);
        assert_int_equal(image_file(&from_file, paths[i]), FLATCLIP_OK);
        assert_int_equal(image_bytes(&from_bytes, file.data, file.bytes), FLATCLIP_OK);
        expect_pixels(paths[i], from_bytes.out, from_file.out);
        free(file.data);
    }
    image_worker_close(&from_bytes);
    image_worker_close(&from_file);
}

/* -- Broken files ------------------------------------------------------------------------------ */

static void expect_failure(image_worker *w, const char *path, flatclip_status status,
                           const char *const says[3])
{
    const flatclip_status got = image_file(w, path);
    if (got != status)
        fail_msg("%s: status %d, expected %d; message: %s", path, got, status, w->err.message);
    assert_int_equal(w->err.status, status);
    for (int i = 0; i < 3; i++)
        if (says[i] && !strstr(w->err.message, says[i]))
            fail_msg("%s: the message does not say '%s': %s", path, says[i], w->err.message);
}

static void each_bad_file_fails_with_its_own_kind_and_words(void **state)
{
    static const struct {
        const char *name;
        flatclip_status status;
        const char *says[3];
    } bad[] = {
        { "empty.jpg", FLATCLIP_ERR_IMAGE_EMPTY, { "empty file" } },
        { "text.jpg", FLATCLIP_ERR_IMAGE_UNKNOWN, { "neither JPEG nor PNG", "74 68 69 73" } },
        { "truncated_header.jpg", FLATCLIP_ERR_IMAGE_TRUNCATED, { "after 200 bytes", "header" } },
        { "truncated_half.jpg", FLATCLIP_ERR_IMAGE_TRUNCATED, { "after 17521 bytes", "of 300" } },
        { "truncated_half.png", FLATCLIP_ERR_IMAGE_TRUNCATED, { "after 13089 bytes", "IDAT" } },
        { "bad_crc.png", FLATCLIP_ERR_IMAGE_CORRUPT, { "checksum", "IDAT" } },
        { "bad_ihdr_crc.png", FLATCLIP_ERR_IMAGE_CORRUPT, { "checksum", "IHDR" } },
        { "bomb_60000x60000.png", FLATCLIP_ERR_IMAGE_TOO_LARGE,
          { "60000 x 60000", "3600000000", "178956970" } },
        { "bomb_65500x65500.jpg", FLATCLIP_ERR_IMAGE_TOO_LARGE,
          { "65500 x 65500", "4290250000", "178956970" } },
        { "zero_width.png", FLATCLIP_ERR_IMAGE_CORRUPT, { "width 0" } },
    };
    (void)state;
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[200];
        snprintf(path, sizeof path, DATA "images/bad/%s", bad[i].name);
        expect_failure(&w, path, bad[i].status, bad[i].says);
    }
    /* The scratch is none the worse. */
    assert_int_equal(image_file(&w, DATA "images/good/cat_420.jpg"), FLATCLIP_OK);
    image_worker_close(&w);
}

static void unreadable_paths_fail_with_the_systems_reason(void **state)
{
    (void)state;
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    expect_failure(&w, "tests/data", FLATCLIP_ERR_IO, (const char *[3]){ "directory" });
    expect_failure(&w, "tests/data/none.jpg", FLATCLIP_ERR_IO, (const char *[3]){ "No such file" });
    expect_failure(&w, "/dev/null", FLATCLIP_ERR_IMAGE_EMPTY, (const char *[3]){ "empty" });
    image_worker_close(&w);
}

static void the_pixel_limit_is_exact(void **state)
{
    (void)state;
    fc_preprocess_options options = image_options(FLATCLIP_RECIPE_OPENAI);
    options.max_pixels = 451 * 300; /* the cat */
    image_worker w = image_worker_open(options);
    assert_int_equal(image_file(&w, DATA "images/good/cat_420.jpg"), FLATCLIP_OK);
    assert_int_equal(image_file(&w, DATA "images/good/cat_rgb.png"), FLATCLIP_OK);
    image_worker_close(&w);
    options.max_pixels--;
    w = image_worker_open(options);
    expect_failure(&w, DATA "images/good/cat_420.jpg", FLATCLIP_ERR_IMAGE_TOO_LARGE,
                   (const char *[3]){ "451 x 300", "135300", "135299" });
    expect_failure(&w, DATA "images/good/cat_rgb.png", FLATCLIP_ERR_IMAGE_TOO_LARGE,
                   (const char *[3]){ "451 x 300", "135300", "135299" });
    image_worker_close(&w);
}

/* -- Cases from public bug reports ------------------------------------------------------------- */

/* What we say where Pillow's verdict is not simply ours. */
static flatclip_status verdict_of(const char *name, const char *pillow)
{
    static const struct {
        const char *name;
        flatclip_status status;
    } ours[] = {
        { "cut50.jpg", FLATCLIP_ERR_IMAGE_TRUNCATED },
        { "no_eoi.jpg", FLATCLIP_ERR_IMAGE_TRUNCATED },
        { "cut50.png", FLATCLIP_ERR_IMAGE_TRUNCATED },
        { "empty.jpg", FLATCLIP_ERR_IMAGE_EMPTY },
        { "text.jpg", FLATCLIP_ERR_IMAGE_UNKNOWN },
        { "gif_named.jpg", FLATCLIP_ERR_IMAGE_UNSUPPORTED },
        { "webp_named.jpg", FLATCLIP_ERR_IMAGE_UNSUPPORTED },
        { "bomb_65500.png", FLATCLIP_ERR_IMAGE_TOO_LARGE },
        { "ztxt3mb.png", FLATCLIP_OK }, /* Pillow refuses large text; we skip it */
    };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(name, ours[i].name) == 0)
            return ours[i].status;
    assert_string_equal(pillow, "ok");
    return FLATCLIP_OK;
}

static void check_case(const golden *g, image_worker *w, const char *name, const char *recipe,
                       const char *pillow)
{
    char path[200], key[200];
    snprintf(path, sizeof path, DATA "cases/%s", name);
    snprintf(key, sizeof key, "%s|%s", name, recipe);
    const flatclip_status got = image_file(w, path), expected = verdict_of(name, pillow);
    if (got != expected)
        fail_msg("%s: status %d, expected %d: %s", path, got, expected, w->err.message);
    const uint8_t *pixels = golden_tensor(g, key, "U8", NULL);
    if (got == FLATCLIP_OK && pixels)
        expect_pixels(key, w->out, pixels);
    else if (got == FLATCLIP_OK)
        assert_true(strcmp(name, "ztxt3mb.png") == 0 || strcmp(name, "gray16.png") == 0);
}

static void public_bug_reports_get_their_verdict_and_pixels(void **state)
{
    (void)state;
    golden g = golden_open(DATA "cases/expected.safetensors");
    image_worker openai = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    image_worker hf = image_worker_open(image_options(FLATCLIP_RECIPE_HF));
    golden_bytes manifest = golden_read(DATA "cases/manifest.tsv");
    int count = 0;
    manifest.data[manifest.bytes] = '\0';
    for (char *line = (char *)manifest.data; *line; line += strcspn(line, "\n") + 1, count++) {
        char name[100], pillow[100];
        assert_int_equal(sscanf(line, "%99[^\t]\t%99[^\t]", name, pillow), 2);
        check_case(&g, &openai, name, "openai", pillow);
        check_case(&g, &hf, name, "hf", pillow);
    }
    assert_int_equal(count, 25);
    free(manifest.data);
    image_worker_close(&hf);
    image_worker_close(&openai);
    golden_close(&g);
}

static void formats_that_are_not_read_are_refused_by_name(void **state)
{
    (void)state;
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    expect_failure(&w, DATA "cases/gif_named.jpg", FLATCLIP_ERR_IMAGE_UNSUPPORTED,
                   (const char *[3]){ "GIF", "only JPEG and PNG", "Convert" });
    expect_failure(&w, DATA "cases/webp_named.jpg", FLATCLIP_ERR_IMAGE_UNSUPPORTED,
                   (const char *[3]){ "WebP" });
    image_worker_close(&w);
}

/* 16-bit grey is the one difference to Pillow: the high byte, not a white picture. */
static void gray_of_16_bits_keeps_its_high_byte(void **state)
{
    (void)state;
    image_worker wide = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    image_worker narrow = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    assert_int_equal(image_file(&wide, DATA "images/good/camera_gray16.png"), FLATCLIP_OK);
    assert_int_equal(image_file(&narrow, DATA "images/good/camera_gray.png"), FLATCLIP_OK);
    expect_pixels("camera_gray16.png", wide.out, narrow.out);
    image_worker_close(&narrow);
    image_worker_close(&wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openai_recipe_equals_pillow_on_35_pictures),
        cmocka_unit_test(hf_recipe_equals_pillow_where_it_differs),
        cmocka_unit_test(hf_recipe_equals_openai_elsewhere),
        cmocka_unit_test(exif_rotate_turns_all_eight_orientations_upright),
        cmocka_unit_test(bytes_in_memory_give_the_same_as_a_file),
        cmocka_unit_test(each_bad_file_fails_with_its_own_kind_and_words),
        cmocka_unit_test(unreadable_paths_fail_with_the_systems_reason),
        cmocka_unit_test(the_pixel_limit_is_exact),
        cmocka_unit_test(public_bug_reports_get_their_verdict_and_pixels),
        cmocka_unit_test(formats_that_are_not_read_are_refused_by_name),
        cmocka_unit_test(gray_of_16_bits_keeps_its_high_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
