/* The same image gives the same bits at every batch size, at every position and with any number of
 * threads, on each instruction set. */
#define _GNU_SOURCE
#include "tests/model_fixture.h"

enum { PICTURE = 224 * 224 * 3 };

static void encode(const flatclip_model *model, int max_batch, int threads, const uint8_t *pixels,
                   size_t count, float *rows)
{
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_session *session = open_session(model, max_batch, threads);
    must(flatclip_encode_pixels_u8(session, pixels, count, rows, NULL, &err), &err);
    flatclip_session_free(session);
}

/* Compares every batch size and thread count with images that were encoded alone. */
static void check_batches(const char *name, const char *isa, size_t count)
{
    static const int batches[] = { 1, 2, 7, 32 };
    flatclip_model *model = load_model(name, isa);
    const size_t row = (size_t)flatclip_model_embed_dim(model) * sizeof(float);
    uint8_t *pixels = random_pixels(count * PICTURE, 1);
    float *alone = malloc(count * row), *rows = malloc(count * row);
    assert_non_null(alone);
    assert_non_null(rows);
    encode(model, 1, 1, pixels, count, alone);
    for (size_t b = 0; b < 4; b++)
        for (int threads = 1; threads <= 2; threads++) {
            memset(rows, 0, count * row);
            encode(model, batches[b], threads, pixels, count, rows);
            if (memcmp(rows, alone, count * row) != 0)
                fail_msg("%s on %s: bits differ at max_batch %d with %d threads", name, isa,
                         batches[b], threads);
        }
    free(rows);
    free(alone);
    free(pixels);
    flatclip_model_free(model);
}

static void batch_size_and_threads_do_not_change_a_bit(void **state)
{
    (void)state;
    for (const char *const *isa = usable_isas(); *isa; isa++)
        check_batches("tiny", *isa, 39); /* 32 + 7: full and cut batches */
}

static void batch_size_and_threads_do_not_change_a_bit_with_many_tokens(void **state)
{
    (void)state;
    for (const char *const *isa = usable_isas(); *isa; isa++)
        check_batches("tiny-b16", *isa, 9);
}

static void batch_size_and_threads_do_not_change_a_bit_at_full_size(void **state)
{
    (void)state;
    if (!have_model("vitb32"))
        skip();
    for (const char *const *isa = usable_isas(); *isa; isa++)
        check_batches("vitb32", *isa, strcmp(*isa, "portable") == 0 ? 3 : 9);
}

/* One picture at every second position, others between; then the other way round. */
static void position_in_the_batch_does_not_change_a_bit(void **state)
{
    (void)state;
    static const int batches[] = { 2, 7, 32 };
    uint8_t *picture = random_pixels(PICTURE, 1), *noise = random_pixels(32 * PICTURE, 2);
    uint8_t *pixels = malloc(32 * PICTURE);
    assert_non_null(pixels);
    for (const char *const *isa = usable_isas(); *isa; isa++) {
        flatclip_model *model = load_model("tiny", *isa);
        float rows[32 * 64], alone[64];
        encode(model, 1, 1, picture, 1, alone);
        for (int run = 0; run < 6; run++) {
            const int batch = batches[run / 2], odd = run % 2;
            memcpy(pixels, noise, 32 * PICTURE);
            for (int i = odd; i < batch; i += 2)
                memcpy(pixels + (size_t)i * PICTURE, picture, PICTURE);
            encode(model, batch, 1 + odd, pixels, (size_t)batch, rows);
            for (int i = odd; i < batch; i += 2)
                if (memcmp(rows + i * 64, alone, sizeof alone) != 0)
                    fail_msg("%s: bits differ at position %d of %d", *isa, i, batch);
        }
        flatclip_model_free(model);
    }
    free(pixels);
    free(noise);
    free(picture);
}

/* Leftovers of an earlier call in the working memory must not leak into the next. */
static void earlier_calls_do_not_change_a_bit(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    uint8_t *pixels = random_pixels(7 * PICTURE, 3);
    for (const char *const *isa = usable_isas(); *isa; isa++) {
        flatclip_model *model = load_model("tiny", *isa);
        flatclip_session *session = open_session(model, 7, 2);
        float first[3 * 64], rows[7 * 64];
        must(flatclip_encode_pixels_u8(session, pixels, 3, first, NULL, &err), &err);
        must(flatclip_encode_pixels_u8(session, pixels, 7, rows, NULL, &err), &err);
        must(flatclip_encode_pixels_u8(session, pixels, 3, rows, NULL, &err), &err);
        assert_memory_equal(first, rows, sizeof first);
        flatclip_session_free(session);
        flatclip_model_free(model);
    }
    free(pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_size_and_threads_do_not_change_a_bit),
        cmocka_unit_test(batch_size_and_threads_do_not_change_a_bit_with_many_tokens),
        cmocka_unit_test(batch_size_and_threads_do_not_change_a_bit_at_full_size),
        cmocka_unit_test(position_in_the_batch_does_not_change_a_bit),
        cmocka_unit_test(earlier_calls_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
