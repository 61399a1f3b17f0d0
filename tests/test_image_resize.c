/* What must hold of resizing whatever the picture: the same bits from every instruction set and
 * from every way of storing a picture, in a scratch that never grows and is never overrun. */
#define _DEFAULT_SOURCE
#include "engine/image/crop.h"
#include "engine/image/resize.h"
#include "tests/test_image_worker.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MANY = 3000 };

static void fill_random(uint8_t *bytes, size_t count, uint64_t *seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)next_random(seed);
}

/* -- Twins ------------------------------------------------------------------------------------- */

static void compare_along(const fc_resize_kernels *fast, int bands, int32_t in, uint64_t *seed)
{
    enum { OUTPUTS = 61 };
    const fc_axis axis = { in, 224, (int64_t)(next_random(seed) % (224 - OUTPUTS)) };
    const size_t room = (size_t)fc_window_room((double)in / 224);
    fc_windows w = { .count = OUTPUTS };
    w.begin = malloc(OUTPUTS * sizeof *w.begin);
    w.length = malloc(OUTPUTS * sizeof *w.length);
    w.weight = malloc(OUTPUTS * room * sizeof *w.weight);
    double *filter = malloc(room * sizeof *filter);
    const size_t row_bytes = (size_t)in * (size_t)bands;
    uint8_t *row = malloc(row_bytes + FC_ROW_PAD);
    fill_random(row, row_bytes + FC_ROW_PAD, seed);
    /* Extremes, where overshoot must be clamped. */
    for (size_t i = 0; i < row_bytes / 2; i++)
        row[i] = row[i] & 1 ? 255 : 0;
    uint8_t expected[4 * OUTPUTS + 4], got[4 * OUTPUTS + 4];

    fc_windows_bicubic(&w, &axis, filter);
    fc_resize_portable.pack(&w);
    fc_resize_portable.along(expected, row, &w, bands);
    fast->pack(&w);
    fast->along(got, row, &w, bands);
    for (int i = 0; i < OUTPUTS * bands; i++)
        if (got[i] != expected[i])
            fail_msg("%d bands, %d pixels: output %d is %d, expected %d", bands, in, i, got[i],
                     expected[i]);
    free(row);
    free(filter);
    free(w.weight);
    free(w.length);
    free(w.begin);
}

static void every_instruction_set_resizes_along_rows_alike(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    FOR_EACH_ISA(isa)
        for (int round = 0; round < 60; round++)
            for (int bands = 1; bands <= 4; bands += 1 + (bands == 1))
                compare_along(fc_resize_kernels_for(isa), bands,
                              1 + (int32_t)(next_random(&seed) % (round < 30 ? 300 : 20000)),
                              &seed);
}

static void every_instruction_set_adds_and_clamps_rows_alike(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    static int32_t expected[MANY], got[MANY];
    static uint8_t row[MANY], expected_out[MANY], got_out[MANY];
    FOR_EACH_ISA(isa)
        for (int round = 0; round < 50; round++) {
            const fc_resize_kernels *fast = fc_resize_kernels_for(isa);
            const size_t count = next_random(&seed) % MANY;
            fill_random(row, count, &seed);
            for (size_t i = 0; i < count; i++)
                got[i] = expected[i] = (int32_t)(next_random(&seed) % (1 << 30)) - (1 << 28);
            const int32_t weight = (int32_t)(next_random(&seed) % (5 << 20)) - (1 << 20);
            fc_resize_portable.across(expected, row, weight, count);
            fast->across(got, row, weight, count);
            assert_memory_equal(got, expected, count * sizeof *got);
            fc_resize_portable.clamp(expected_out, expected, count);
            fast->clamp(got_out, got, count);
            assert_memory_equal(got_out, expected_out, count);
        }
}

/* -- Shapes ------------------------------------------------------------------------------------ */

static flatclip_status run_image(image_worker *w, const uint8_t *pixels, int width, int height)
{
    const flatclip_image image = { pixels, width, height, 0 };
    fc_succeed(&w->err);
    return fc_preprocess_image(&w->options, &w->scratch, &image, w->out, &w->err);
}

static void expect_constant(const image_worker *w, int value)
{
    for (int i = 0; i < PIXEL_BYTES; i++)
        assert_int_equal(w->out[i], value);
}

static void a_plain_picture_of_any_shape_stays_plain(void **state)
{
    static const int shapes[][2] = {
        { 1, 1 }, { 20000, 1 }, { 1, 20000 }, { 1000000, 1 }, { 1, 1000000 }, { 3, 70000 },
        { 70000, 3 }, { 223, 225 }, { 224, 224 }, { 225, 223 }, { 3000, 1000 }, { 1000, 3000 },
    };
    (void)state;
    uint8_t *pixels = malloc(3 * 3000000);
    memset(pixels, 201, 3 * 3000000);
    FOR_EACH_ISA(isa) {
        fc_preprocess_options options = image_options(FLATCLIP_RECIPE_OPENAI);
        options.isa = isa;
        image_worker w = image_worker_open(options);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            memset(w.out, 0, PIXEL_BYTES);
            assert_int_equal(run_image(&w, pixels, shapes[i][0], shapes[i][1]), FLATCLIP_OK);
            expect_constant(&w, 201);
        }
        image_worker_close(&w);
    }
    free(pixels);
}

static void pixels_outside_the_crop_do_not_matter(void **state)
{
    (void)state;
    enum { WIDTH = 5000, HEIGHT = 10 };
    uint64_t seed = test_seed();
    uint8_t *pixels = malloc(3 * WIDTH * HEIGHT);
    fill_random(pixels, 3 * WIDTH * HEIGHT, &seed);
    image_worker a = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    image_worker b = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    assert_int_equal(run_image(&a, pixels, WIDTH, HEIGHT), FLATCLIP_OK);
    for (int y = 0; y < HEIGHT; y++) { /* the crop is 10 pixels wide, and bicubic looks 2 further */
        memset(pixels + 3 * y * WIDTH, 0, 3 * 2490);
        memset(pixels + 3 * (y * WIDTH + 2510), 0, 3 * 2490);
    }
    assert_int_equal(run_image(&b, pixels, WIDTH, HEIGHT), FLATCLIP_OK);
    expect_pixels("5000x10", b.out, a.out);
    image_worker_close(&b);
    image_worker_close(&a);
    free(pixels);
}

static void stride_is_honoured_and_nothing_is_read_past_the_last_row(void **state)
{
    (void)state;
    /* A square, so that the crop reaches the last pixel of the last row. */
    enum { WIDTH = 240, HEIGHT = 240, STRIDE = 1024 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (HEIGHT - 1) * STRIDE + 3 * WIDTH;
    const size_t mapped = (bytes + page - 1) / page * page;
    uint64_t seed = test_seed();
    uint8_t *map = mmap(NULL, mapped + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + mapped, page, PROT_NONE), 0);
    uint8_t *loose = map + mapped - bytes; /* ends where reading is a fault */
    uint8_t *dense = malloc(3 * WIDTH * HEIGHT);
    fill_random(loose, bytes, &seed);
    for (size_t y = 0; y < HEIGHT; y++)
        memcpy(dense + y * 3 * WIDTH, loose + y * STRIDE, 3 * WIDTH);

    FOR_EACH_ISA(isa) {
        fc_preprocess_options options = image_options(FLATCLIP_RECIPE_HF);
        options.isa = isa;
        image_worker a = image_worker_open(options), b = image_worker_open(options);
        const flatclip_image image = { loose, WIDTH, HEIGHT, STRIDE };
        assert_int_equal(fc_preprocess_image(&a.options, &a.scratch, &image, a.out, &a.err),
                         FLATCLIP_OK);
        assert_int_equal(run_image(&b, dense, WIDTH, HEIGHT), FLATCLIP_OK);
        expect_pixels("stride", a.out, b.out);
        image_worker_close(&b);
        image_worker_close(&a);
    }
    free(dense);
    munmap(map, mapped + page);
}

static void impossible_pictures_are_refused(void **state)
{
    (void)state;
    static const uint8_t pixel[3];
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    assert_int_equal(run_image(&w, NULL, 1, 1), FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(run_image(&w, pixel, 0, 1), FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(run_image(&w, pixel, 1, -1), FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(run_image(&w, pixel, 60000, 60000), FLATCLIP_ERR_IMAGE_TOO_LARGE);
    const flatclip_image narrow = { pixel, 2, 1, 5 };
    assert_int_equal(fc_preprocess_image(&w.options, &w.scratch, &narrow, w.out, &w.err),
                     FLATCLIP_ERR_ARGUMENT);
    assert_non_null(strstr(w.err.message, "stride is 5"));
    assert_int_equal(image_bytes(&w, NULL, 0), FLATCLIP_ERR_IMAGE_EMPTY);
    assert_int_equal(image_bytes(&w, NULL, 9), FLATCLIP_ERR_ARGUMENT);
    image_worker_close(&w);
}

/* -- Orientations ------------------------------------------------------------------------------ */

/* Where pixel (x, y) of the upright picture is stored, for each orientation. */
static void stored_place(int orientation, int width, int height, int x, int y, int *column,
                         int *row)
{
    const int is_turned = orientation >= 5;
    const int stored_width = is_turned ? height : width, stored_height = is_turned ? width : height;
    *column = is_turned ? y : x;
    *row = is_turned ? x : y;
    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        *column = stored_width - 1 - *column;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        *row = stored_height - 1 - *row;
}

/* An upright picture as a camera held some other way stores it. */
static uint8_t *store(const uint8_t *upright, int width, int height, int orientation)
{
    uint8_t *stored = malloc((size_t)width * (size_t)height * 3);
    const int stored_width = orientation >= 5 ? height : width;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            int column, row;
            stored_place(orientation, width, height, x, y, &column, &row);
            memcpy(stored + 3 * ((size_t)row * (size_t)stored_width + (size_t)column),
                   upright + 3 * ((size_t)y * (size_t)width + (size_t)x), 3);
        }
    return stored;
}

static void run_stored(image_worker *w, const uint8_t *stored, int width, int height,
                       int orientation, fc_pixel_kind kind)
{
    const int is_turned = orientation >= 5;
    const size_t bands = kind == FC_PIXEL_RGB ? 3 : 1;
    fc_picture picture = { .width = is_turned ? height : width,
                           .height = is_turned ? width : height,
                           .kind = kind,
                           .orientation = orientation };
    for (int i = 0; i < 256; i++)
        for (int band = 0; band < 3; band++)
            picture.palette[i][band] = (uint8_t)(i * (band + 3));
    fc_resizer resizer;
    assert_int_equal(fc_resize_begin(&resizer, &w->options, &w->scratch, &picture, w->out, &w->err),
                     FLATCLIP_OK);
    const size_t row_bytes = bands * (size_t)picture.width;
    for (int32_t y = 0; y < picture.height; y++)
        fc_resize_row(&resizer, y, stored + (size_t)y * row_bytes, row_bytes);
}

static void an_orientation_changes_no_bit_of_the_upright_picture(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int round = 0; round < 40; round++) {
        fc_preprocess_options options = image_options(round % 2 ? FLATCLIP_RECIPE_HF
                                                                : FLATCLIP_RECIPE_OPENAI);
        options.exif_rotate = 1;
        options.isa = fc_isa_supported(FC_ISA_AVX2) && round % 3 ? FC_ISA_AVX2 : FC_ISA_PORTABLE;
        const int width = 1 + (int)(next_random(&seed) % (round % 4 ? 600 : 12));
        const int height = 1 + (int)(next_random(&seed) % (round % 5 ? 600 : 3));
        uint8_t *upright = malloc((size_t)width * (size_t)height * 3);
        fill_random(upright, (size_t)width * (size_t)height * 3, &seed);
        image_worker expected = image_worker_open(options), got = image_worker_open(options);
        assert_int_equal(run_image(&expected, upright, width, height), FLATCLIP_OK);
        for (int orientation = 1; orientation <= 8; orientation++) {
            uint8_t *stored = store(upright, width, height, orientation);
            char what[80];
            snprintf(what, sizeof what, "%d x %d, orientation %d", width, height, orientation);
            run_stored(&got, stored, width, height, orientation, FC_PIXEL_RGB);
            expect_pixels(what, got.out, expected.out);
            free(stored);
        }
        image_worker_close(&got);
        image_worker_close(&expected);
        free(upright);
    }
}

/* -- Scratch ----------------------------------------------------------------------------------- */

typedef struct {
    size_t end; /* of the region before */
    uint8_t *block;
    int is_checking;
} gaps;

/* Writes or checks the bytes between regions: an overrun of any buffer would land there. */
static void on_region(void *user, const flatclip_region *region)
{
    gaps *g = user;
    for (size_t i = g->end; i < region->offset; i++) {
        if (g->is_checking && g->block[i] != 0x5a)
            fail_msg("the buffer before %s was overrun", region->name);
        g->block[i] = 0x5a;
    }
    g->end = region->offset + region->bytes;
}

static void walk_gaps(const image_worker *w, int is_checking)
{
    gaps g = { 0, w->block, is_checking };
    fc_arena arena = { .kind = FLATCLIP_REGION_WORKSPACE, .watch = on_region, .watch_user = &g };
    fc_preprocess_scratch again;
    fc_preprocess_layout(&again, &arena, &w->options);
    assert_int_equal(arena.used, w->block_bytes);
}

static void run_rows(image_worker *w, int width, int height, int orientation, fc_pixel_kind kind,
                     uint64_t *seed)
{
    const size_t bytes = (size_t)width * (size_t)height * (kind == FC_PIXEL_RGB ? 3 : 1);
    uint8_t *stored = malloc(bytes);
    fill_random(stored, bytes, seed);
    run_stored(w, stored, width, height, orientation, kind);
    free(stored);
}

/* The tightest case is a small limit, with pictures that just fit under it. */
static void the_scratch_holds_every_picture_under_the_limit(void **state)
{
    static const uint64_t limits[] = { 1, 2, 50, 224 * 224, 90000, 400 * 400 + 7 };
    static const int sizes[] = { 1, 2, 3, 8, 12, 13, 14, 64, 224, 336 };
    (void)state;
    uint64_t seed = test_seed();
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            fc_preprocess_options options = image_options(FLATCLIP_RECIPE_OPENAI);
            options.size = sizes[s];
            options.exif_rotate = 1;
            options.max_pixels = limits[l];
            image_worker w = image_worker_open(options);
            walk_gaps(&w, 0);
            const int side = fc_longest_short_side(&options);
            const int odd = 1 + (int)(next_random(&seed) % (uint32_t)side);
            for (int orientation = 1; orientation <= 8; orientation++) {
                const fc_pixel_kind kind = orientation % 3 ? FC_PIXEL_RGB : FC_PIXEL_INDEX;
                run_rows(&w, side, side, orientation, kind, &seed);
                run_rows(&w, odd, (int)(limits[l] / (uint64_t)odd), orientation, kind, &seed);
                run_rows(&w, (int)limits[l], 1, orientation, kind, &seed);
            }
            walk_gaps(&w, 1);
            image_worker_close(&w);
        }
}

static void the_scratch_is_bounded_for_any_limit(void **state)
{
    (void)state;
    fc_preprocess_options options = image_options(FLATCLIP_RECIPE_OPENAI);
    fc_preprocess_scratch scratch;
    fc_arena usual = { .kind = FLATCLIP_REGION_WORKSPACE }, most = usual;
    fc_preprocess_layout(&scratch, &usual, &options);
    options.max_pixels = UINT64_MAX;
    fc_preprocess_layout(&scratch, &most, &options);
    print_message("scratch: %zu bytes by default, %zu without a limit\n", usual.used, most.used);
    assert_in_range(usual.used, 1, 2 << 20);
    assert_in_range(most.used, usual.used, 8 << 20);

    flatclip_error err;
    assert_int_equal(fc_check_size(&options, 65535, UINT32_MAX, &err), FLATCLIP_OK);
    assert_int_equal(fc_check_size(&options, 65536, 65536, &err), FLATCLIP_ERR_IMAGE_TOO_LARGE);
    assert_non_null(strstr(err.message, "65535"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_resizes_along_rows_alike),
        cmocka_unit_test(every_instruction_set_adds_and_clamps_rows_alike),
        cmocka_unit_test(a_plain_picture_of_any_shape_stays_plain),
        cmocka_unit_test(pixels_outside_the_crop_do_not_matter),
        cmocka_unit_test(stride_is_honoured_and_nothing_is_read_past_the_last_row),
        cmocka_unit_test(impossible_pictures_are_refused),
        cmocka_unit_test(an_orientation_changes_no_bit_of_the_upright_picture),
        cmocka_unit_test(the_scratch_holds_every_picture_under_the_limit),
        cmocka_unit_test(the_scratch_is_bounded_for_any_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
