/* The numbers that make gpu-check brings to machines without JSON or codecs are the goldens'. */
#define _GNU_SOURCE
#include "tests/model_fixture.h"

enum { PICTURES = 4, PICTURE = 224 * 224 * 3 };
static const int rows_of[PICTURES] = { 0, 1, 5, 9 }; /* which of images.txt */

static void check_rows(const float *stored, const char *file, size_t columns)
{
    size_t rows, dim;
    float *expected = golden_rows(file, "unit", &rows, &dim);
    assert_int_equal(dim, columns);
    for (size_t i = 0; i < PICTURES; i++)
        assert_memory_equal(stored + i * dim, expected + (size_t)rows_of[i] * dim,
                            dim * sizeof *expected);
    free(expected);
}

static void stored_numbers_are_the_goldens(void **state)
{
    (void)state;
    size_t bytes;
    fixture_images images;
    const char *names[PICTURES];
    list_images(&images);
    for (int i = 0; i < PICTURES; i++)
        names[i] = images.names[rows_of[i]];
    char *stored = read_whole("tests/data/gpu_goldens.bin", &bytes);
    uint8_t *pixels = golden_pixels("pixels_openai", names, PICTURES, 224);
    assert_int_equal(bytes, PICTURES * (PICTURE + (64 + 512) * sizeof(float)));
    assert_memory_equal(stored, pixels, PICTURES * PICTURE);
    check_rows((float *)(void *)(stored + PICTURES * PICTURE), "image_tiny", 64);
    check_rows((float *)(void *)(stored + PICTURES * (PICTURE + 64 * sizeof(float))),
               "image_vitb32", 512);
    free(pixels);
    free(stored);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(stored_numbers_are_the_goldens) };
    return cmocka_run_group_tests_name("gpu_goldens", tests, NULL, NULL);
}
