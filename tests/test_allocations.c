/* Once a session exists, encoding allocates nothing; what the image decoders take for one picture
 * comes back with it; and every allocation of loading and session creation can fail cleanly.
 *
 * The program defines malloc and its family (and mmap) itself, in front of the C library, so every
 * call from our code, libjpeg, libpng and jansson is seen. Not under sanitizers, which do the same. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/model_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CAN_INTERPOSE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAN_INTERPOSE 0
#endif
#endif
#ifndef CAN_INTERPOSE
#define CAN_INTERPOSE 1
#endif

#if !CAN_INTERPOSE
static void allocations_are_counted_in_builds_without_sanitizers(void **state)
{
    (void)state;
    printf("note: allocations are not counted under sanitizers or outside glibc\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_counted_in_builds_without_sanitizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

/* -- The interposed family ---------------------------------------------------------------------- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static atomic_long calls;       /* of any function of the family, freeing included */
static atomic_long live_blocks;
static atomic_long live_bytes;
static atomic_long until_failure = -1; /* this many allocations succeed, then one fails; -1: none does */

/* Whether this allocation is the one that has to fail. */
static int must_fail(void)
{
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&until_failure) < 0)
        return 0;
    const int fails = atomic_fetch_sub(&until_failure, 1) == 0;
    if (fails)
        errno = ENOMEM;
    return fails;
}

/* Blocks and bytes in use, as far as they went through here. */
static void *count_in(void *block)
{
    if (block) {
        atomic_fetch_add(&live_blocks, 1);
        atomic_fetch_add(&live_bytes, (long)malloc_usable_size(block));
    }
    return block;
}

static void count_out(void *block)
{
    if (block) {
        atomic_fetch_sub(&live_blocks, 1);
        atomic_fetch_sub(&live_bytes, (long)malloc_usable_size(block));
    }
}

/* Shared libraries must find these instead of the C library's. */
#pragma GCC visibility push(default)

void *malloc(size_t bytes)
{
    return must_fail() ? NULL : count_in(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return must_fail() ? NULL : count_in(__libc_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes)
{
    if (must_fail())
        return NULL;
    count_out(block);
    void *moved = __libc_realloc(block, bytes);
    count_in(moved ? moved : bytes ? block : NULL);
    return moved;
}

void *memalign(size_t alignment, size_t bytes)
{
    return must_fail() ? NULL : count_in(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    void *taken = memalign(alignment, bytes);
    if (!taken)
        return ENOMEM;
    *block = taken;
    return 0;
}

void free(void *block)
{
    atomic_fetch_add(&calls, 1);
    count_out(block);
    __libc_free(block);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (must_fail())
        return MAP_FAILED;
    void *block = (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
    if (block != MAP_FAILED) {
        atomic_fetch_add(&live_blocks, 1);
        atomic_fetch_add(&live_bytes, (long)bytes);
    }
    return block;
}

int munmap(void *address, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    atomic_fetch_sub(&live_blocks, 1);
    atomic_fetch_sub(&live_bytes, (long)bytes);
    return (int)syscall(SYS_munmap, address, bytes);
}

#pragma GCC visibility pop

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

/* -- Encoding takes nothing --------------------------------------------------------------------- */

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
    return flatclip_encode_pixels_u8(kit->session, kit->bytes, count, kit->rows, kit->items, &kit->err);
}

static flatclip_status encode_f32(encode_kit *kit, size_t count)
{
    return flatclip_encode_pixels_f32(kit->session, kit->floats, count, kit->rows, NULL, &kit->err);
}

static flatclip_status encode_decoded(encode_kit *kit, size_t count)
{
    return flatclip_encode_images(kit->session, kit->images, count, kit->rows, kit->items, &kit->err);
}

/* Makes pictures of all kinds: larger, smaller and thinner than the model's square. */
static void make_kit(encode_kit *kit, flatclip_session *session)
{
    static const int sides[MAX_BATCH][2] = { { 224, 224 }, { 300, 224 }, { 64, 48 }, { 500, 400 },
                                             { 224, 500 }, { 1, 1 }, { 900, 7 }, { 3, 300 } };
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

/* -- The decoders give everything back ---------------------------------------------------------- */

static void check_balance(const char *path, long blocks, long bytes)
{
    if (atomic_load(&live_blocks) != blocks || atomic_load(&live_bytes) != bytes)
        fail_msg("%s: %ld blocks and %ld bytes were kept", path, atomic_load(&live_blocks) - blocks,
                 atomic_load(&live_bytes) - bytes);
}

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
        const flatclip_status from_bytes = flatclip_encode_bytes(session, &file, 1, row, NULL, NULL);
        check_balance(path, blocks, bytes);
        assert_int_equal(from_file, from_bytes);
    }
    free(data);
}

static void pictures_give_back_what_their_decoder_took(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "bad_crc.png", "bad_ihdr_crc.png", "bomb_60000x60000.png", "bomb_65500x65500.jpg",
        "empty.jpg", "text.jpg", "truncated_half.jpg", "truncated_half.png",
        "truncated_header.jpg", "zero_width.png",
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

/* -- Every allocation fails once ---------------------------------------------------------------- */

/* Runs body with its n-th allocation failing, for n = 0, 1, ... until nothing fails any more. */
static long fail_each(const char *what, flatclip_status (*body)(void *user, flatclip_error *err),
                      void *user)
{
    enum { LIMIT = 100000 };
    for (long n = 0; n < LIMIT; n++) {
        flatclip_error err = { FLATCLIP_OK, "" };
        const long blocks = atomic_load(&live_blocks), bytes = atomic_load(&live_bytes);
        atomic_store(&until_failure, n);
        const flatclip_status status = body(user, &err);
        const int happened = atomic_exchange(&until_failure, -1) < 0;
        check_balance(what, blocks, bytes);
        if (!happened) {
            must(status, &err);
            return n;
        }
        /* A failure may be survived; what must not happen is another error, or a silent message. */
        if (status != FLATCLIP_OK && status != FLATCLIP_ERR_MEMORY)
            fail_msg("%s: failing allocation %ld gave %s: %s", what, n, flatclip_status_name(status),
                     err.message);
        if (status == FLATCLIP_ERR_MEMORY && err.message[0] == '\0')
            fail_msg("%s: failing allocation %ld gave no message", what, n);
    }
    fail_msg("%s: more than %d allocations", what, LIMIT);
    return 0;
}

static flatclip_status load_and_free(void *user, flatclip_error *err)
{
    flatclip_model *model = NULL;
    const flatclip_status status = flatclip_model_load(user, NULL, &model, err);
    if (status != FLATCLIP_OK && model)
        return FLATCLIP_ERR_ARGUMENT; /* a failed load must leave the handle NULL */
    flatclip_model_free(model);
    return status;
}

static flatclip_status plan_only(void *user, flatclip_error *err)
{
    return flatclip_plan(user, NULL, NULL, NULL, NULL, NULL, NULL, err);
}

static flatclip_status create_and_free(void *user, flatclip_error *err)
{
    flatclip_session *session = NULL;
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = 3;
    options.threads = 3;
    const flatclip_status status = flatclip_session_create(user, &options, &session, err);
    if (status != FLATCLIP_OK && session)
        return FLATCLIP_ERR_ARGUMENT;
    flatclip_session_free(session);
    return status;
}

static void every_failing_allocation_of_a_load_is_clean(void **state)
{
    (void)state;
    char path[] = MODELS "micro.safetensors";
    const long allocations = fail_each("flatclip_model_load", load_and_free, path);
    print_message("flatclip_model_load: %ld allocations\n", allocations);
    assert_true(allocations > 0);
    assert_true(fail_each("flatclip_plan", plan_only, path) > 0);
}

static void every_failing_allocation_of_a_session_is_clean(void **state)
{
    (void)state;
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_model *model = load_model("micro", NULL);
    must(create_and_free(model, &err), &err); /* the C library keeps its thread stacks */
    const long allocations = fail_each("flatclip_session_create", create_and_free, model);
    print_message("flatclip_session_create: %ld allocations\n", allocations);
    assert_true(allocations > 0);
    flatclip_model_free(model);
}

/* The decoder's allocations: the item fails with MEMORY, and the session is as good as before. */
static void every_failing_allocation_of_a_picture_is_its_own_error(void **state)
{
    (void)state;
    static const char *const names[] = { "cat_420.jpg", "hubble_progressive.jpg", "cat_cmyk.jpg",
                                         "cat_interlaced.png", "cat_palette_trns.png" };
    flatclip_model *model = load_model("tiny", NULL);
    flatclip_session *session = open_session(model, 1, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        float row[DIM], expected[DIM];
        char path[128];
        snprintf(path, sizeof path, GOOD_IMAGES "%s", names[i]);
        const char *paths = path;
        flatclip_error err = { FLATCLIP_OK, "" };
        must(flatclip_encode_files(session, &paths, 1, expected, NULL, &err), &err);
        for (long n = 0, happened = 1; happened; n++) {
            const long blocks = atomic_load(&live_blocks), bytes = atomic_load(&live_bytes);
            atomic_store(&until_failure, n);
            const flatclip_status status = flatclip_encode_files(session, &paths, 1, row, NULL, &err);
            happened = atomic_exchange(&until_failure, -1) < 0;
            check_balance(path, blocks, bytes);
            if (status == FLATCLIP_OK)
                assert_memory_equal(row, expected, sizeof row);
            else if (!happened || status != FLATCLIP_ERR_MEMORY)
                fail_msg("%s: failing allocation %ld gave %s: %s", path, n,
                         flatclip_status_name(status), err.message);
        }
    }
    flatclip_session_free(session);
    flatclip_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_from_shared_libraries_are_seen),
        cmocka_unit_test(encoding_ready_pixels_never_allocates),
        cmocka_unit_test(encoding_float_pixels_never_allocates),
        cmocka_unit_test(resizing_decoded_images_never_allocates),
        cmocka_unit_test(pictures_give_back_what_their_decoder_took),
        cmocka_unit_test(every_failing_allocation_of_a_load_is_clean),
        cmocka_unit_test(every_failing_allocation_of_a_session_is_clean),
        cmocka_unit_test(every_failing_allocation_of_a_picture_is_its_own_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
