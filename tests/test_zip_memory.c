/* zip.c when memory fails, and where it must not be asked for. */
#define _GNU_SOURCE
#include "tests/counting_malloc.h"

#include "tests/zip_fixture.h"

#if !CAN_INTERPOSE
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_counted_in_builds_without_sanitizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

/* Opens the sample in file and reads all of it in every way. */
static flatclip_status use(int file, flatclip_error *err)
{
    fc_zip *zip;
    flatclip_status status = fc_zip_open(file, ZIP_NAME, &zip, err);
    for (size_t i = 0; status == FLATCLIP_OK && i < fc_zip_count(zip); i++) {
        unsigned char *data;
        const fc_zip_member *member = fc_zip_at(zip, i);
        status = fc_zip_verify(zip, member, err);
        if (status == FLATCLIP_OK)
            status = fc_zip_read_whole(zip, member, SAMPLE_TEXT, &data, err);
        if (status == FLATCLIP_OK)
            free(data);
    }
    fc_zip_close(zip);
    return status;
}

static int sample_file(void)
{
    zip_builder built;
    zip_builder_start_torch(&built);
    add_sample(&built);
    zip_builder_finish(&built);
    const int file = file_of(built.data, built.bytes);
    zip_builder_free(&built);
    return file;
}

static void every_failing_allocation_is_reported_and_nothing_kept(void **state)
{
    (void)state;
    const int file = sample_file();
    for (int lasts = 0; lasts < 2; lasts++) {
        long n = 0;
        for (int happened = 1; happened; n++) {
            flatclip_error err = { FLATCLIP_OK, "" };
            const long blocks = atomic_load(&live_blocks), bytes = atomic_load(&live_bytes);
            atomic_store(&failure_lasts, lasts);
            atomic_store(&until_failure, n);
            const flatclip_status status = use(file, &err);
            happened = atomic_exchange(&until_failure, NEVER) < 0;
            atomic_store(&failure_lasts, 0);
            check_balance(ZIP_NAME, blocks, bytes);
            if (status != (happened ? FLATCLIP_ERR_MEMORY : FLATCLIP_OK))
                fail_msg("failing allocation %ld gave %s: %s", n, flatclip_status_name(status),
                         err.message);
            if (happened && !strstr(err.message, ZIP_NAME))
                fail_msg("failing allocation %ld gave the message \"%s\"", n, err.message);
        }
        print_message("%ld allocations failed\n", n - 1);
        assert_true(n > 15);
    }
    close(file);
}

static void reading_in_place_and_refusing_by_size_take_no_memory(void **state)
{
    (void)state;
    const int file = sample_file();
    fc_zip *zip = open_good(file);
    unsigned char out[SAMPLE_DATA], *data;
    const long before = atomic_load(&calls);
    assert_int_equal(fc_zip_read(zip, fc_zip_at(zip, 3), 0, SAMPLE_DATA, out, NULL), FLATCLIP_OK);
    assert_int_equal(fc_zip_read_whole(zip, fc_zip_at(zip, 1), SAMPLE_TEXT - 1, &data, NULL),
                     FLATCLIP_ERR_FORMAT);
    assert_int_equal(atomic_load(&calls), before);
    fc_zip_close(zip);
    close(file);
}

/* Whole reads hold the member and nothing else; an open archive what its directory needs. */
static void what_is_held_is_what_the_header_says(void **state)
{
    (void)state;
    enum { SLACK = 64 }; /* malloc rounds up */
    const int file = sample_file();
    const long empty = atomic_load(&live_bytes);
    fc_zip *zip = open_good(file);
    const long opened = atomic_load(&live_bytes);
    unsigned char *data;
    assert_true(opened - empty < 1200);
    assert_int_equal(fc_zip_read_whole(zip, fc_zip_at(zip, 1), SAMPLE_TEXT, &data, NULL),
                     FLATCLIP_OK);
    assert_true(atomic_load(&live_bytes) - opened < SAMPLE_TEXT + SLACK);
    free(data);
    fc_zip_close(zip);
    assert_int_equal(atomic_load(&live_bytes), empty);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_allocation_is_reported_and_nothing_kept),
        cmocka_unit_test(reading_in_place_and_refusing_by_size_take_no_memory),
        cmocka_unit_test(what_is_held_is_what_the_header_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
