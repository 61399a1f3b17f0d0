/* Once a session exists, encoding allocates nothing; and what the image decoders take for one
 * picture comes back with it. */
#define _GNU_SOURCE
#include "tests/counting_malloc.h"

#include <sys/resource.h>

#if !CAN_INTERPOSE
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_counted_in_builds_without_sanitizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

/* A counter that nobody reaches would make every test below pass. */
static void calls_from_shared_libraries_are_seen(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    const char *paths[] = { GOOD_IMAGES "cat_420.jpg", GOOD_IMAGES "cat_rgb.png" };
    flatclip_model *model = load_model("micro", NULL);
    flatclip_session *session = open_session(model, 1, 1);
    float *row = malloc((size_t)flatclip_model_embed_dim(model) * sizeof *row);
    for (int i = 0; i < 2; i++) {
        const long before = atomic_load(&calls);
        must(flatclip_encode_files(session, &paths[i], 1, row, NULL, &err), &err);
        print_message("%s: %ld allocation calls\n", paths[i], atomic_load(&calls) - before);
        assert_true(atomic_load(&calls) > before);
    }
    free(row);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

/* -- Encoding takes nothing -------------------------------------------------------------------- */

enum { MAX_BATCH = 8, ENCODES = 1000, SIZE = 224, PICTURE = SIZE * SIZE * 3, DIM = 64 };

/* What one kind of encode call needs; everything is made before counting starts. */
typedef struct {
    flatclip_session *session;
    uint8_t *bytes;
    float *floats;
    flatclip_image images[MAX_BATCH];
    float rows[MAX_BATCH * DIM];
    flatclip_error items[MAX_BATCH], err;
} encode_kit;

typedef flatclip_status encode_fn(encode_kit *kit, size_t count);

static flatclip_status encode_u8(encode_kit *kit, size_t count)
{
    return flatclip_encode_pixels_u8(kit->session, kit->bytes, count, kit->rows, kit->items,
                                     &kit->err);
}

static flatclip_status encode_f32(encode_kit *kit, size_t count)
{
    return flatclip_encode_pixels_f32(kit->session, kit->floats, count, kit->rows, NULL, &kit->err);
}

static flatclip_status encode_decoded(encode_kit *kit, size_t count)
{
    return flatclip_encode_images(kit->session, kit->images, count, kit->rows, kit->items,
                                  &kit->err);
}

/* Makes pictures of all kinds: larger, smaller and thinner than the model's square. */
static void make_kit(encode_kit *kit, flatclip_session *session)
{
    static const int sides[MAX_BATCH][2] = { { 224, 224 }, { 300, 224 }, { 64, 48 }, { 500, 400 },
                                             { 224, 500 }, { 1, 1 },     { 900, 7 }, { 3, 300 } };
    kit->session = session;
    kit->bytes = random_pixels(MAX_BATCH * PICTURE, 21);
    kit->floats = malloc(MAX_BATCH * PICTURE * sizeof(float));
    for (size_t i = 0; i < MAX_BATCH * PICTURE; i++)
        kit->floats[i] = (float)kit->bytes[i] / 64.0f - 2.0f;
    for (int i = 0; i < MAX_BATCH; i++)
        kit->images[i] = (flatclip_image){ kit->bytes, sides[i][0], sides[i][1], 0 };
}

/* Counts calls of the family over encodes of random size, after one that settles the C library. */
static void check_silent(const char *what, encode_fn *encode, int threads)
{
    static encode_kit kit;
    const uint64_t seed = 20261;
    uint64_t random = seed;
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, MAX_BATCH, threads);
    flatclip_memory before = FLATCLIP_MEMORY_INIT, after = FLATCLIP_MEMORY_INIT;
    make_kit(&kit, session);
    must(encode(&kit, MAX_BATCH), &kit.err);
    flatclip_session_memory(session, &before);
    int failures = 0;
    const long start = atomic_load(&calls);
    for (int i = 0; i < ENCODES; i++)
        failures += encode(&kit, 1 + next_random(&random) % MAX_BATCH) != FLATCLIP_OK;
    const long counted = atomic_load(&calls) - start;
    flatclip_session_memory(session, &after);
    print_message("%s, %d threads: %ld allocation calls in %d encodes (seed %lu)\n", what, threads,
                  counted, ENCODES, (unsigned long)seed);
    assert_int_equal(failures, 0);
    assert_int_equal(counted, 0);
    assert_memory_equal(&before, &after, sizeof before);
    free(kit.floats);
    free(kit.bytes);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

static void encoding_ready_pixels_never_allocates(void **state)
{
    (void)state;
    check_silent("uint8 pixels", encode_u8, 1);
    check_silent("uint8 pixels", encode_u8, 2);
}

static void encoding_float_pixels_never_allocates(void **state)
{
    (void)state;
    check_silent("float pixels", encode_f32, 1);
}

static void resizing_decoded_images_never_allocates(void **state)
{
    (void)state;
    check_silent("decoded images", encode_decoded, 1);
    check_silent("decoded images", encode_decoded, 2);
}

/* -- The decoders give everything back --------------------------------------------------------- */

/* Encodes one picture from its file and from memory, good or bad; nothing may stay allocated. */
static void encode_and_compare(flatclip_session *session, const char *path)
{
    float row[DIM];
    flatclip_bytes file;
    void *data = read_whole(path, &file.bytes);
    file.data = data;
    for (int round = 0; round < 2; round++) {
        const long blocks = atomic_load(&live_blocks), bytes = atomic_load(&live_bytes);
        const flatclip_status from_file = flatclip_encode_files(session, &path, 1, row, NULL, NULL);
        check_balance(path, blocks, bytes);
        const flatclip_status from_bytes =
            flatclip_encode_bytes(session, &file, 1, row, NULL, NULL);
        check_balance(path, blocks, bytes);
        assert_int_equal(from_file, from_bytes);
    }
    free(data);
}

static void pictures_give_back_what_their_decoder_took(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "bad_crc.png",          "bad_ihdr_crc.png",   "bomb_60000x60000.png",
        "bomb_65500x65500.jpg", "empty.jpg",          "text.jpg",
        "truncated_half.jpg",   "truncated_half.png", "truncated_header.jpg",
        "zero_width.png",
    };
    static fixture_images images;
    list_images(&images);
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 2, 1);
    float row[DIM];
    flatclip_encode_files(session, images.paths, 1, row, NULL, NULL); /* stdio and friends settle */
    for (size_t i = 0; i < images.count; i++)
        encode_and_compare(session, images.paths[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/data/images/bad/%s", bad[i]);
        encode_and_compare(session, path);
    }
    flatclip_session_free(session);
    flatclip_model_free(model);
}

/* Minor page faults so far. */
static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* A session's memory is touched when it is created, so resident memory does not creep later. */
static void the_first_encode_touches_no_new_page(void **state)
{
    (void)state;
    enum { BATCH = 32, SIDE = 224, FEW = 8 }; /* the kernel may move a page or two */
    static uint8_t pixels[BATCH * SIDE * SIDE * 3];
    static float rows[BATCH * 64];
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = load_model("tiny", NULL);
    memset(pixels, 100, sizeof pixels);
    for (int i = 0; i < 2; i++) { /* the first time for code and stack */
        flatclip_session *session = open_session(model, BATCH, 1);
        const long before = faults();
        must(flatclip_encode_pixels_u8(session, pixels, BATCH, rows, NULL, &err), &err);
        if (i == 1 && faults() - before > FEW)
            fail_msg("%ld page faults in the first encode of a session", faults() - before);
        flatclip_session_free(session);
    }
    flatclip_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_encode_touches_no_new_page),
        cmocka_unit_test(calls_from_shared_libraries_are_seen),
        cmocka_unit_test(encoding_ready_pixels_never_allocates),
        cmocka_unit_test(encoding_float_pixels_never_allocates),
        cmocka_unit_test(resizing_decoded_images_never_allocates),
        cmocka_unit_test(pictures_give_back_what_their_decoder_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
