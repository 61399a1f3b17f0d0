/* Embeddings against numbers computed in float64 from the same synthetic weights: every shape,
 * every way in, every instruction set of this machine, to 1e-6 of a unit vector. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>

#include "tests/model_fixture.h"

static const double TOLERANCE = 1e-6;

/* Compares got [rows, columns] with a golden tensor; the tolerance is relative to each row's
 * length, which is 1 for "unit". */
static void compare(const char *what, const char *file, const char *tensor, const float *got,
                    size_t count)
{
    size_t rows, columns;
    float *expected = golden_rows(file, tensor, &rows, &columns);
    double worst = 0;
    size_t worst_row = 0;
    assert_true(count <= rows);
    for (size_t r = 0; r < count; r++) {
        double length = 0;
        for (size_t c = 0; c < columns; c++)
            length += (double)expected[r * columns + c] * expected[r * columns + c];
        for (size_t c = 0; c < columns; c++) {
            const double gap = fabs((double)got[r * columns + c] - expected[r * columns + c]);
            if (!(gap / sqrt(length) <= worst)) { /* NaN counts as worse */
                worst = gap / sqrt(length);
                worst_row = r;
            }
        }
    }
    free(expected);
    print_message("%s, %s: largest difference %.2e, in row %zu\n", what, tensor, worst, worst_row);
    if (!(worst <= TOLERANCE))
        fail_msg("%s: row %zu is %.3e off, allowed %.1e", what, worst_row, worst, TOLERANCE);
}

static flatclip_session *open_raw_session(const flatclip_model *model, int max_batch)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_session *session = NULL;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = max_batch;
    options.no_normalize = 1;
    must(flatclip_session_create(model, &options, &session, &err), &err);
    return session;
}

/* Encodes the first count golden pictures of a model, unit and raw, on every instruction set. */
static void check_model(const char *name, const char *golden, const char *pixel_file, size_t count,
                        int size, int max_batch)
{
    static const char *const four[] = { "cat_420.jpg", "astronaut_420.jpg", "rocket_444.jpg",
                                        "tall_400x1000.jpg" }; /* rows of the short goldens */
    static fixture_images images;
    flatclip_error err = { FLATCLIP_OK, "" };
    list_images(&images);
    uint8_t *pixels = golden_pixels(pixel_file, count == 4 ? four : images.names, count, size);
    for (const char *const *isa = usable_isas(); *isa; isa++) {
        char what[128];
        snprintf(what, sizeof what, "%s on %s", name, *isa);
        flatclip_model *model = load_model(name, *isa);
        assert_int_equal(flatclip_model_image_size(model), size);
        const size_t columns = (size_t)flatclip_model_embed_dim(model);
        float *rows = malloc(count * columns * sizeof *rows);
        for (int raw = 0; raw <= 1; raw++) {
            flatclip_session *session =
                raw ? open_raw_session(model, max_batch) : open_session(model, max_batch, 0);
            memset(rows, 0x7f, count * columns * sizeof *rows);
            must(flatclip_encode_pixels_u8(session, pixels, count, rows, NULL, &err), &err);
            compare(what, golden, raw ? "raw" : "unit", rows, count);
            flatclip_session_free(session);
        }
        free(rows);
        flatclip_model_free(model);
    }
    free(pixels);
}

static void tiny_equals_float64_on_every_instruction_set(void **state)
{
    (void)state;
    check_model("tiny", "image_tiny", "pixels_openai", 35, 224, 8);
}

static void b16_shape_equals_float64_on_every_instruction_set(void **state)
{
    (void)state;
    check_model("tiny-b16", "image_tiny-b16", "image_tiny-b16", 4, 224, 3);
}

static void l14_336_shape_equals_float64_on_every_instruction_set(void **state)
{
    (void)state;
    check_model("tiny-l14-336", "image_tiny-l14-336", "image_tiny-l14-336", 4, 336, 3);
}

static void full_size_vitb32_equals_float64_on_every_instruction_set(void **state)
{
    (void)state;
    if (!have_model("vitb32"))
        skip();
    check_model("vitb32", "image_vitb32", "pixels_openai", 35, 224, 32);
}

/* Every other way in, on the tiny model: each must reach the numbers of its golden. */
static void float_pixels_equal_float64(void **state)
{
    (void)state;
    static fixture_images images;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    list_images(&images);
    uint8_t *bytes = golden_pixels("pixels_openai", images.names, 35, 224);
    float *pixels = malloc(35 * 3 * 224 * 224 * sizeof *pixels);
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 8, 0);
    flatclip_model_describe(model, &info);
    for (size_t i = 0; i < 35; i++)
        for (size_t c = 0; c < 3; c++)
            for (size_t p = 0; p < 224 * 224; p++)
                pixels[(i * 3 + c) * 224 * 224 + p] =
                    ((float)bytes[(i * 224 * 224 + p) * 3 + c] / 255.0f - info.mean[c]) /
                    info.std[c];
    float rows[35 * 64];
    must(flatclip_encode_pixels_f32(session, pixels, 35, rows, NULL, &err), &err);
    compare("float pixels", "image_tiny", "unit", rows, 35);
    flatclip_session_free(session);
    flatclip_model_free(model);
    free(pixels);
    free(bytes);
}

static void files_and_bytes_equal_float64(void **state)
{
    (void)state;
    static fixture_images images;
    static flatclip_error items[35];
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_bytes files[35];
    list_images(&images);
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 8, 2);
    float from_files[35 * 64], from_bytes[35 * 64];
    must(flatclip_encode_files(session, images.paths, 35, from_files, items, &err), &err);
    compare("files", "image_tiny", "unit", from_files, 35);
    for (int i = 0; i < 35; i++) {
        assert_int_equal(items[i].status, FLATCLIP_OK);
        files[i].data = read_whole(images.paths[i], &files[i].bytes);
    }
    must(flatclip_encode_bytes(session, files, 35, from_bytes, NULL, &err), &err);
    assert_memory_equal(from_files, from_bytes, sizeof from_files);
    for (int i = 0; i < 35; i++)
        free((void *)(uintptr_t)files[i].data);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

/* A decoded picture that needs no resizing is the ready picture, whatever its stride. */
static void decoded_images_give_the_bits_of_ready_pixels(void **state)
{
    (void)state;
    enum { SIZE = 224, STRIDE = 3 * SIZE + 37 };
    flatclip_error err = { FLATCLIP_OK, "" };
    uint8_t *ready = random_pixels(SIZE * SIZE * 3, 11);
    uint8_t *wide = calloc(SIZE, STRIDE);
    for (size_t y = 0; y < SIZE; y++)
        memcpy(wide + y * STRIDE, ready + y * SIZE * 3, SIZE * 3);
    const flatclip_image images[] = { { ready, SIZE, SIZE, 0 }, { wide, SIZE, SIZE, STRIDE } };
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 2, 1);
    float expected[64], rows[2 * 64];
    must(flatclip_encode_pixels_u8(session, ready, 1, expected, NULL, &err), &err);
    must(flatclip_encode_images(session, images, 2, rows, NULL, &err), &err);
    assert_memory_equal(rows, expected, sizeof expected);
    assert_memory_equal(rows + 64, expected, sizeof expected);
    flatclip_session_free(session);
    flatclip_model_free(model);
    free(wide);
    free(ready);
}

static void bad_files_fail_alone(void **state)
{
    (void)state;
    static fixture_images images;
    flatclip_error err = { FLATCLIP_OK, "" }, items[4];
    list_images(&images);
    const char *paths[] = { images.paths[5], "tests/data/images/bad/bad_crc.png", "no/such.jpg",
                            images.paths[7] };
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 3, 1);
    float rows[4 * 64], alone[64], zeros[64] = { 0 };
    assert_int_equal(flatclip_encode_files(session, paths, 4, rows, items, &err),
                     FLATCLIP_ERR_ITEMS);
    assert_int_equal(items[0].status, FLATCLIP_OK);
    assert_int_equal(items[1].status, FLATCLIP_ERR_IMAGE_CORRUPT);
    assert_int_equal(items[2].status, FLATCLIP_ERR_IO);
    assert_int_equal(items[3].status, FLATCLIP_OK);
    assert_memory_equal(rows + 64, zeros, sizeof zeros);
    assert_memory_equal(rows + 2 * 64, zeros, sizeof zeros);
    must(flatclip_encode_files(session, &paths[3], 1, alone, NULL, &err), &err);
    assert_memory_equal(rows + 3 * 64, alone, sizeof alone);
    /* Without records, the first failure is what the call returns. */
    assert_int_equal(flatclip_encode_files(session, paths, 4, rows, NULL, &err),
                     FLATCLIP_ERR_IMAGE_CORRUPT);
    assert_memory_equal(rows + 3 * 64, alone, sizeof alone);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

/* Copies a model file, so that a test can change it. */
static void copy_file(const char *from, const char *to)
{
    size_t bytes;
    char *data = read_whole(from, &bytes);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    free(data);
}

/* Writes value over every element of a float32 tensor. */
static void fill_tensor(const char *path, const char *name, float value)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    fc_safetensors *file = NULL;
    must(fc_safetensors_open(path, &file, &err), &err);
    const fc_tensor *tensor = fc_safetensors_find(file, name);
    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, FC_F32);
    const int fd = open(path, O_WRONLY);
    for (uint64_t i = 0; i < tensor->count; i++)
        assert_int_equal(pwrite(fd, &value, 4, (off_t)(tensor->offset + i * 4)), 4);
    close(fd);
    fc_safetensors_close(file);
}

static void overflowing_weights_are_an_error_and_never_a_row(void **state)
{
    (void)state;
    const char *path = "build/models/overflow.tmp";
    flatclip_error err = { FLATCLIP_OK, "" }, items[3];
    float rows[3 * 64], zeros[3 * 64] = { 0 };
    uint8_t *pixels = random_pixels(3 * 224 * 224 * 3, 5);
    copy_file(model_path("tiny"), path);
    fill_tensor(path, "visual.ln_post.weight", 3e38f);
    for (const char *const *isa = usable_isas(); *isa; isa++) {
        flatclip_model *model = load_path(path, *isa);
        flatclip_session *session = open_session(model, 2, 1);
        assert_int_equal(flatclip_encode_pixels_u8(session, pixels, 3, rows, items, &err),
                         FLATCLIP_ERR_ITEMS);
        for (int i = 0; i < 3; i++)
            assert_int_equal(items[i].status, FLATCLIP_ERR_NUMERIC);
        assert_memory_equal(rows, zeros, sizeof zeros);
        flatclip_session_free(session);
        flatclip_model_free(model);
    }
    unlink(path);
    free(pixels);
}

static void pixels_that_are_not_finite_fail_alone(void **state)
{
    (void)state;
    const size_t picture = 3 * 224 * 224;
    const float bad[] = { NAN, INFINITY, 3e38f };
    flatclip_error err = { FLATCLIP_OK, "" }, items[4];
    float *pixels = calloc(4 * picture, sizeof *pixels);
    for (size_t i = 0; i < 4 * picture; i++)
        pixels[i] = (float)(i % 251) / 100.0f - 1.0f;
    float rows[4 * 64], good[4 * 64], zeros[64] = { 0 };
    for (const char *const *isa = usable_isas(); *isa; isa++) {
        flatclip_model *model = load_model("tiny", *isa);
        flatclip_session *session = open_session(model, 4, 1);
        must(flatclip_encode_pixels_f32(session, pixels, 4, good, items, &err), &err);
        for (size_t k = 0; k < 3; k++) {
            float kept[16];
            memcpy(kept, pixels + 2 * picture + 100, sizeof kept);
            for (size_t i = 0; i < 16; i++)
                pixels[2 * picture + 100 + i] = bad[k];
            const flatclip_status status =
                flatclip_encode_pixels_f32(session, pixels, 4, rows, items, &err);
            /* 3e38 need not overflow after LayerNorm; if it does, it must say so. */
            if (k < 2 || status != FLATCLIP_OK) {
                assert_int_equal(status, FLATCLIP_ERR_ITEMS);
                assert_int_equal(items[2].status, FLATCLIP_ERR_NUMERIC);
                assert_memory_equal(rows + 2 * 64, zeros, sizeof zeros);
            }
            assert_memory_equal(rows, good, 2 * 64 * sizeof(float));
            assert_memory_equal(rows + 3 * 64, good + 3 * 64, 64 * sizeof(float));
            memcpy(pixels + 2 * picture + 100, kept, sizeof kept);
        }
        flatclip_session_free(session);
        flatclip_model_free(model);
    }
    free(pixels);
}

/* The same weights with exact GELU: the file's metadata alone decides. */
static void activation_travels_with_the_file(void **state)
{
    (void)state;
    const char *path = "build/models/gelu.tmp";
    if (!have_model("vitb32"))
        skip();
    static fixture_images images;
    flatclip_error err = { FLATCLIP_OK, "" };
    char header[65536];
    copy_file(model_path("vitb32"), path);
    const int fd = open(path, O_RDWR);
    const ssize_t bytes = pread(fd, header, sizeof header, 0);
    assert_true(bytes > 0);
    char *word = memmem(header, (size_t)bytes, "\"quickgelu\"", 11);
    assert_non_null(word);
    assert_int_equal(pwrite(fd, "\"gelu\"     ", 11, word - header), 11);
    close(fd);

    list_images(&images);
    uint8_t *pixels = golden_pixels("pixels_openai", images.names, 4, 224);
    float rows[4 * 512];
    for (const char *const *isa = usable_isas(); *isa; isa++) {
        flatclip_model *model = load_path(path, *isa);
        flatclip_session *session = open_session(model, 4, 0);
        must(flatclip_encode_pixels_u8(session, pixels, 4, rows, NULL, &err), &err);
        compare(*isa, "image_vitb32_gelu", "unit", rows, 4);
        flatclip_session_free(session);
        flatclip_model_free(model);
    }
    free(pixels);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_equals_float64_on_every_instruction_set),
        cmocka_unit_test(b16_shape_equals_float64_on_every_instruction_set),
        cmocka_unit_test(l14_336_shape_equals_float64_on_every_instruction_set),
        cmocka_unit_test(full_size_vitb32_equals_float64_on_every_instruction_set),
        cmocka_unit_test(float_pixels_equal_float64),
        cmocka_unit_test(files_and_bytes_equal_float64),
        cmocka_unit_test(decoded_images_give_the_bits_of_ready_pixels),
        cmocka_unit_test(bad_files_fail_alone),
        cmocka_unit_test(overflowing_weights_are_an_error_and_never_a_row),
        cmocka_unit_test(pixels_that_are_not_finite_fail_alone),
        cmocka_unit_test(activation_travels_with_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
