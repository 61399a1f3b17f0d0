/* What a picture costs beside the fixed scratch: counted by standing in for malloc and free, which
 * libjpeg and libpng use too. Sanitizers want malloc for themselves, so there the tests are skipped
 * (and the sanitizer looks for leaks instead). */
#define _GNU_SOURCE
#include "tests/test_image_worker.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_COUNTING 0
#endif
#endif
#ifndef IS_COUNTING
#define IS_COUNTING 1
#endif

#define GOOD "tests/data/images/good/"

static struct {
    int is_on;
    long calls, live; /* blocks */
    size_t bytes, peak;
    long fail_at;     /* calls from this one on return NULL: libjpeg tries again with less */
} heap;

#if IS_COUNTING
extern void *__libc_malloc(size_t bytes);
extern void __libc_free(void *block);

/* Visible, or the shared libraries would go on calling the C library's. */
__attribute__((visibility("default"))) void *malloc(size_t bytes);
__attribute__((visibility("default"))) void free(void *block);

void *malloc(size_t bytes)
{
    if (heap.is_on && ++heap.calls >= heap.fail_at && heap.fail_at) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = __libc_malloc(bytes);
    if (heap.is_on && block) {
        heap.live++;
        heap.bytes += malloc_usable_size(block);
        if (heap.bytes > heap.peak)
            heap.peak = heap.bytes;
    }
    return block;
}

void free(void *block)
{
    if (heap.is_on && block) {
        heap.live--;
        heap.bytes -= malloc_usable_size(block);
    }
    __libc_free(block);
}
#endif

static void start_counting(long fail_at)
{
    memset(&heap, 0, sizeof heap);
    heap.fail_at = fail_at;
    heap.is_on = 1;
}

static void require_counting(void)
{
    if (!IS_COUNTING)
        skip();
}

static const char *const pictures[] = {
    GOOD "cat_420.jpg",       GOOD "hubble_progressive.jpg", GOOD "cat_cmyk.jpg",
    GOOD "cat_palette.png",   GOOD "cat_interlaced.png",     GOOD "cat_rgba_soft.png",
    "tests/data/cases/ztxt3mb.png",      "tests/data/cases/cut50.jpg",
    "tests/data/cases/cut50.png",        "tests/data/images/bad/bad_crc.png",
    "tests/data/images/bad/truncated_header.jpg",
};
enum { PICTURES = sizeof pictures / sizeof *pictures };

static void every_block_is_given_back_with_the_picture(void **state)
{
    (void)state;
    require_counting();
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    for (int i = 0; i < PICTURES; i++) {
        start_counting(0);
        image_file(&w, pictures[i]);
        heap.is_on = 0;
        if (heap.live || heap.bytes)
            fail_msg("%s: %ld blocks, %zu bytes are left", pictures[i], heap.live, heap.bytes);
        assert_true(heap.calls > 0);
        print_message("%-45s %3ld blocks, at most %zu bytes\n", pictures[i], heap.calls, heap.peak);
    }
    image_worker_close(&w);
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    require_counting();
    fc_preprocess_options options = image_options(FLATCLIP_RECIPE_OPENAI);
    options.exif_rotate = 1;
    image_worker w = image_worker_open(options);
    for (int i = 0; i < 7; i++) { /* the good ones */
        int is_done = 0;
        for (long n = 1; !is_done; n++) {
            start_counting(n);
            const flatclip_status status = image_file(&w, pictures[i]);
            heap.is_on = 0;
            is_done = heap.calls < n;
            if (status != (is_done ? FLATCLIP_OK : FLATCLIP_ERR_MEMORY))
                fail_msg("%s, allocation %ld: status %d: %s", pictures[i], n, status,
                         w.err.message);
            assert_int_equal(heap.live, 0);
        }
    }
    image_worker_close(&w);
}

static void decoded_pixels_cost_no_heap_at_all(void **state)
{
    (void)state;
    require_counting();
    static uint8_t pixels[640 * 480 * 3];
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    const flatclip_image image = { pixels, 640, 480, 0 };
    start_counting(0);
    const flatclip_status status =
        fc_preprocess_image(&w.options, &w.scratch, &image, w.out, &w.err);
    heap.is_on = 0;
    assert_int_equal(status, FLATCLIP_OK);
    assert_int_equal(heap.calls, 0);
    image_worker_close(&w);
}

static void a_large_text_chunk_is_not_kept(void **state)
{
    (void)state;
    require_counting();
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    start_counting(0);
    const flatclip_status status = image_file(&w, "tests/data/cases/ztxt3mb.png");
    heap.is_on = 0;
    assert_int_equal(status, FLATCLIP_OK);
    assert_in_range(heap.peak, 1, 200000);
    image_worker_close(&w);
}

static void a_bomb_is_refused_before_it_costs_memory(void **state)
{
    static const char *const bombs[] = { "tests/data/images/bad/bomb_60000x60000.png",
                                         "tests/data/images/bad/bomb_65500x65500.jpg",
                                         "tests/data/cases/bomb_65500.png" };
    (void)state;
    require_counting();
    image_worker w = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    for (int i = 0; i < 3; i++) {
        start_counting(0);
        const flatclip_status status = image_file(&w, bombs[i]);
        heap.is_on = 0;
        assert_int_equal(status, FLATCLIP_ERR_IMAGE_TOO_LARGE);
        assert_in_range(heap.peak, 0, 100000);
    }
    image_worker_close(&w);
}

/* -- Pipes ------------------------------------------------------------------------------------- */

typedef struct {
    int to;
    golden_bytes file;
} trickle;

/* Writes a file the way a slow peer would: the first bytes one by one. */
static void *write_slowly(void *user)
{
    trickle *t = user;
    for (size_t at = 0; at < t->file.bytes;) {
        const size_t most = at < 50 ? 1 : 3000, left = t->file.bytes - at;
        const ssize_t count = write(t->to, t->file.data + at, left < most ? left : most);
        if (count < 0)
            break;
        at += (size_t)count;
    }
    close(t->to);
    return NULL;
}

static void a_pipe_is_read_like_a_file(void **state)
{
    (void)state;
    image_worker expected = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    image_worker got = image_worker_open(image_options(FLATCLIP_RECIPE_OPENAI));
    for (int i = 0; i < 4; i++) {
        int ends[2];
        char path[40];
        pthread_t writer;
        assert_int_equal(pipe(ends), 0);
        trickle t = { ends[1], golden_read(pictures[i]) };
        assert_int_equal(pthread_create(&writer, NULL, write_slowly, &t), 0);
        snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
        const flatclip_status status = image_file(&got, path);
        pthread_join(writer, NULL);
        close(ends[0]);
        free(t.file.data);
        if (status != FLATCLIP_OK)
            fail_msg("%s: %s", pictures[i], got.err.message);
        assert_int_equal(image_file(&expected, pictures[i]), FLATCLIP_OK);
        expect_pixels(pictures[i], got.out, expected.out);
    }
    image_worker_close(&got);
    image_worker_close(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_is_given_back_with_the_picture),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(decoded_pixels_cost_no_heap_at_all),
        cmocka_unit_test(a_large_text_chunk_is_not_kept),
        cmocka_unit_test(a_bomb_is_refused_before_it_costs_memory),
        cmocka_unit_test(a_pipe_is_read_like_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
