/* Reading command lines: every way to write an option, and every way to get it wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/command_line.h"
#include "cli/embed_options.h"
#include "cli/suggest.h"

enum { NAME, SIZE, FAST, NEWER, OPTIONS };

static const fc_option options[OPTIONS] = {
    [NAME] = { "name", 'n', FC_OPTION_VALUE, "a word" },
    [SIZE] = { "size", 0, FC_OPTION_VALUE, "a number, 1 to 100" },
    [FAST] = { "fast", 'f', FC_OPTION_FLAG, NULL },
    [NEWER] = { "newer", 0, FC_OPTION_LATER, NULL },
};

#define WORDS(...) ((char *[]){ "command", __VA_ARGS__, NULL })

static fc_option_reader reader_of(char **argv)
{
    fc_option_reader reader = { options, OPTIONS, 0, argv, 1, 0, NULL };

    while (argv[reader.argc])
        reader.argc++;
    return reader;
}

static void expect_next(fc_option_reader *reader, int which, const char *value)
{
    flatclip_error err;

    assert_int_equal(fc_option_next(reader, &err), which);
    if (value)
        assert_string_equal(reader->value, value);
}

static void expect_error(char **argv, const char *message)
{
    fc_option_reader reader = reader_of(argv);
    flatclip_error err;

    assert_int_equal(fc_option_next(&reader, &err), FC_OPTION_ERROR);
    assert_int_equal(err.status, FLATCLIP_ERR_ARGUMENT);
    assert_string_equal(err.message, message);
}

static void values_come_in_four_forms_and_arguments_in_between(void **state)
{
    (void)state;
    fc_option_reader reader = reader_of(WORDS("--name", "a", "x", "--name=b=c", "-n", "d", "-",
                                              "-ne", "--fast", "--name=", "-f"));
    expect_next(&reader, NAME, "a");
    expect_next(&reader, FC_OPTION_ARGUMENT, "x");
    expect_next(&reader, NAME, "b=c");
    expect_next(&reader, NAME, "d");
    expect_next(&reader, FC_OPTION_ARGUMENT, "-");
    expect_next(&reader, NAME, "e");
    expect_next(&reader, FAST, NULL);
    expect_next(&reader, NAME, "");
    expect_next(&reader, FAST, NULL);
    expect_next(&reader, FC_OPTION_END, NULL);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    fc_option_reader reader = reader_of(WORDS("--fast", "--", "--fast", "--", "-n"));
    expect_next(&reader, FAST, NULL);
    expect_next(&reader, FC_OPTION_ARGUMENT, "--fast");
    expect_next(&reader, FC_OPTION_ARGUMENT, "--");
    expect_next(&reader, FC_OPTION_ARGUMENT, "-n");
    expect_next(&reader, FC_OPTION_END, NULL);
}

static void mistakes_are_named_and_near_misses_suggested(void **state)
{
    (void)state;
    expect_error(WORDS("--nmae", "x"), "unknown option --nmae; did you mean --name?");
    expect_error(WORDS("--siz=3"), "unknown option --siz; did you mean --size?");
    expect_error(WORDS("--colour"), "unknown option --colour");
    expect_error(WORDS("--newe"), "unknown option --newe");
    expect_error(WORDS("-x"), "unknown option -x (in \"-x\")");
    expect_error(WORDS("--name"), "--name needs a value: a word");
    expect_error(WORDS("-n"), "-n needs a value: a word");
    expect_error(WORDS("--name", "--fast"), "--name needs a value: a word");
    expect_error(WORDS("--fast=yes"), "--fast takes no value, but got \"yes\"");
    expect_error(WORDS("--newer"), "this version has no --newer yet");
}

static void values_that_begin_with_a_dash_are_values(void **state)
{
    (void)state;
    fc_option_reader reader = reader_of(WORDS("--name", "-", "--name", "-3", "--name", "--other"));
    expect_next(&reader, NAME, "-");
    expect_next(&reader, NAME, "-3");
    expect_next(&reader, NAME, "--other");
}

static void numbers_are_digits_within_bounds(void **state)
{
    static const char *const wrong[] = { "", "0", "101", "+5", "-5", " 5", "5 ", "5x", "0x5", "5.0",
                                         "18446744073709551617", "99999999999999999999999" };
    flatclip_error err;
    uint64_t number = 0;

    (void)state;
    assert_int_equal(fc_option_number(&options[SIZE], "1", 1, 100, &number, &err), FLATCLIP_OK);
    assert_int_equal(number, 1);
    assert_int_equal(fc_option_number(&options[SIZE], "0100", 1, 100, &number, &err), FLATCLIP_OK);
    assert_int_equal(number, 100);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(fc_option_number(&options[SIZE], wrong[i], 1, 100, &number, &err),
                         FLATCLIP_ERR_ARGUMENT);
    assert_int_equal(fc_option_number(&options[SIZE], "5x", 1, 100, &number, &err),
                     FLATCLIP_ERR_ARGUMENT);
    assert_string_equal(err.message, "--size is \"5x\", expected a number, 1 to 100");
    assert_int_equal(fc_option_number(&options[SIZE], "18446744073709551609", 1, UINT64_MAX,
                                      &number, &err), FLATCLIP_OK);
    assert_true(number == UINT64_MAX - 6);
}

static void distance_counts_slips_of_the_finger(void **state)
{
    (void)state;
    assert_int_equal(fc_edit_distance("", ""), 0);
    assert_int_equal(fc_edit_distance("threads", "threads"), 0);
    assert_int_equal(fc_edit_distance("treads", "threads"), 1);
    assert_int_equal(fc_edit_distance("thraeds", "threads"), 1); /* a swap */
    assert_int_equal(fc_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(fc_edit_distance("", "abc"), 3);
    assert_int_equal(fc_edit_distance("a word that is far longer than any option", "a"),
                     FC_SUGGEST_MAX + 1);
}

static void short_words_get_no_guess(void **state)
{
    (void)state;
    fc_suggestion near = { "gpu", NULL, 0 };
    fc_suggest(&near, "cpu");
    assert_null(near.best);

    near = (fc_suggestion){ "prec", NULL, 0 };
    fc_suggest(&near, "precision");
    assert_string_equal(near.best, "precision");
    fc_suggest(&near, "pref"); /* a slip is a better guess than an abbreviation */
    assert_string_equal(near.best, "pref");
}

static void embed_reads_all_its_options(void **state)
{
    (void)state;
    char *argv[] = { "embed", "-m", "M", "-o", "o.npy", "--device", "cuda:3", "--precision", "bf16",
                     "--batch", "7", "--threads", "2", "--recipe=hf", "a", "--exif-rotate",
                     "--max-pixels", "1000", "--no-normalize", "--from-file", "-", "-0", "--shard",
                     "2/5", "-q", "b", NULL };
    const int argc = sizeof argv / sizeof argv[0] - 1;
    fc_embed_options embed;
    flatclip_error err;

    assert_int_equal(fc_embed_options_read(&embed, argc, argv, &err), FLATCLIP_OK);
    assert_string_equal(embed.model, "M");
    assert_string_equal(embed.output, "o.npy");
    assert_string_equal(embed.list, "-");
    assert_int_equal(embed.list_only_nul, 1);
    assert_int_equal(embed.shard, 2);
    assert_int_equal(embed.shards, 5);
    assert_int_equal(embed.quiet, 1);
    assert_int_equal(embed.engine.device, FLATCLIP_DEVICE_CUDA);
    assert_int_equal(embed.engine.device_index, 3);
    assert_int_equal(embed.engine.precision, FLATCLIP_PRECISION_BF16);
    assert_int_equal(embed.session.max_batch, 7);
    assert_int_equal(embed.session.threads, 2);
    assert_int_equal(embed.session.recipe, FLATCLIP_RECIPE_HF);
    assert_int_equal(embed.session.exif_rotate, 1);
    assert_int_equal(embed.session.max_pixels, 1000);
    assert_int_equal(embed.session.no_normalize, 1);
    assert_int_equal(embed.path_count, 2);
    assert_string_equal(embed.paths[0], "a");
    assert_string_equal(embed.paths[1], "b");
    fc_embed_options_free(&embed);
}

static void every_input_is_in_exactly_one_shard(void **state)
{
    static const size_t counts[] = { 0, 1, 2, 7, 35, 1000, SIZE_MAX / 2 };
    static const uint64_t shards[] = { 1, 2, 3, 8, 1000 };

    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (size_t s = 0; s < sizeof shards / sizeof shards[0]; s++) {
            fc_embed_options embed = { .shards = shards[s] };
            size_t next = 0, least = SIZE_MAX, most = 0;
            for (embed.shard = 1; embed.shard <= embed.shards; embed.shard++) {
                size_t first, length;
                fc_embed_shard(&embed, counts[c], &first, &length);
                assert_true(first == next);
                next = first + length;
                least = length < least ? length : least;
                most = length > most ? length : most;
            }
            assert_true(next == counts[c]);
            assert_true(most - least <= 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_in_four_forms_and_arguments_in_between),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(mistakes_are_named_and_near_misses_suggested),
        cmocka_unit_test(values_that_begin_with_a_dash_are_values),
        cmocka_unit_test(numbers_are_digits_within_bounds),
        cmocka_unit_test(distance_counts_slips_of_the_finger),
        cmocka_unit_test(short_words_get_no_guess),
        cmocka_unit_test(embed_reads_all_its_options),
        cmocka_unit_test(every_input_is_in_exactly_one_shard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
