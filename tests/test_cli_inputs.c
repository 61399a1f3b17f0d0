/* The real program: where inputs come from and under which names they go. */
#include "tests/test_cli_process.h"

#define GOOD "tests/data/images/good"
#define CAT GOOD "/cat_420.jpg"
#define ROCKET GOOD "/rocket_444.jpg"

static int embed_folder(cli_world *world, const char *folder)
{
    return RUN(world, "embed", "-m", world->model, "-o", in_folder(world, "e.npy"), folder);
}

static void assert_lines(cli_world *world, const char *expected)
{
    char *lines = read_whole(in_folder(world, "e.jsonl"), NULL);

    assert_non_null(lines);
    assert_string_equal(lines, expected);
    free(lines);
}

/* Names relative to the world's folder, so that expected lines do not depend on where it is. */
static int run_inside(cli_world *world, const char *list)
{
    char program[PATH_BYTES], here[PATH_BYTES];
    const char *given = getenv("FLATCLIP_BIN");

    assert_non_null(realpath(given ? given : "build/flatclip", program));
    assert_non_null(getcwd(here, sizeof here));
    char *const before = given ? strdup(given) : NULL;
    setenv("FLATCLIP_BIN", program, 1);
    assert_int_equal(chdir(world->folder), 0);
    const int code = list ? RUN_WITH_INPUT(world, list, "embed", "-m", world->model, "-o", "e.npy",
                                           "--from-file", "-")
                          : RUN(world, "embed", "-m", world->model, "-o", "e.npy", "tree/");
    assert_int_equal(chdir(here), 0);
    if (before)
        setenv("FLATCLIP_BIN", before, 1);
    else
        unsetenv("FLATCLIP_BIN");
    free(before);
    return code;
}

static void every_odd_name_survives_and_hidden_ones_are_skipped(void **state)
{
    cli_world *world = *state;
    static const char *const pictures[] = {
        "tree/a/x.jpg", "tree/b/x.jpg", "tree/a/x.png", "tree/UPPER.JPG", "tree/with space.jpg",
        "tree/quote\"back\\slash.jpg", "tree/new\nline.jpg", "tree/latin1_\xe9.jpg",
        "tree/utf8_\xc3\xa9.jpg", "tree/no_ending",
        "tree/.hidden.jpg", "tree/.folder/x.jpg"
    };

    mkdir(in_folder(world, "tree"), 0700);
    mkdir(in_folder(world, "tree/a"), 0700);
    mkdir(in_folder(world, "tree/b"), 0700);
    mkdir(in_folder(world, "tree/.folder"), 0700);
    for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++)
        copy_file(CAT, in_folder(world, pictures[i]));
    write_whole(in_folder(world, "tree/notes.txt"), "no picture", 10);

    assert_int_equal(run_inside(world, NULL), 0);
    assert_lines(world, "{\"path\": \"tree/UPPER.JPG\", \"row\": 0}\n"
                        "{\"path\": \"tree/a/x.jpg\", \"row\": 1}\n"
                        "{\"path\": \"tree/a/x.png\", \"row\": 2}\n"
                        "{\"path\": \"tree/b/x.jpg\", \"row\": 3}\n"
                        "{\"path\": \"tree/latin1_\\udce9.jpg\", \"row\": 4}\n"
                        "{\"path\": \"tree/new\\nline.jpg\", \"row\": 5}\n"
                        "{\"path\": \"tree/no_ending\", \"row\": 6}\n"
                        "{\"path\": \"tree/quote\\\"back\\\\slash.jpg\", \"row\": 7}\n"
                        "{\"path\": \"tree/utf8_\xc3\xa9.jpg\", \"row\": 8}\n"
                        "{\"path\": \"tree/with space.jpg\", \"row\": 9}\n");
    assert_contains(world->err, "skipped in folders: 1 that are no pictures, 2 hidden");
    matrix m = read_npy(in_folder(world, "e.npy"));
    assert_int_equal(m.rows, 10);
    free(m.content);
}

static void a_list_ends_names_with_newline_or_nul(void **state)
{
    cli_world *world = *state;
    static const char newlines[] = "p q.jpg\n\nr.jpg\r\nmissing.jpg\n-\n";
    static const char nuls[] = "p q.jpg\0line\nbreak.jpg\0";
    const char *list = in_folder(world, "list");

    copy_file(CAT, in_folder(world, "p q.jpg"));
    copy_file(ROCKET, in_folder(world, "r.jpg"));
    copy_file(ROCKET, in_folder(world, "-"));
    copy_file(ROCKET, in_folder(world, "line\nbreak.jpg"));

    write_whole(list, newlines, sizeof newlines - 1);
    assert_int_equal(run_inside(world, list), 1);
    char *lines = read_whole(in_folder(world, "e.jsonl"), NULL);
    assert_contains(lines, "{\"path\": \"p q.jpg\", \"row\": 0}\n"
                           "{\"path\": \"r.jpg\", \"row\": 1}\n"
                           "{\"path\": \"missing.jpg\", \"error\": \"");
    assert_contains(lines, "{\"path\": \"-\", \"row\": 2}\n");
    assert_int_equal(count_lines(lines), 4);
    free(lines);

    write_whole(list, nuls, sizeof nuls - 1);
    assert_int_equal(run_inside(world, list), 0);
    assert_lines(world, "{\"path\": \"p q.jpg\", \"row\": 0}\n"
                        "{\"path\": \"line\\nbreak.jpg\", \"row\": 1}\n");
}

static void a_dash_is_the_picture_on_standard_input(void **state)
{
    cli_world *world = *state;

    assert_int_equal(RUN(world, "embed", "-q", "-m", world->model, CAT), 0);
    char *expected = strdup(strstr(world->out, "\"row\""));
    assert_int_equal(RUN_WITH_INPUT(world, CAT, "embed", "-q", "-m", world->model, "-"), 0);
    assert_contains(world->out, "{\"path\": \"-\", ");
    assert_string_equal(strstr(world->out, "\"row\""), expected);
    free(expected);

    assert_int_equal(RUN(world, "embed", "-q", "-m", world->model, "-"), 1); /* nothing on it */
    assert_contains(world->out, "{\"path\": \"-\", \"error\": \"");
    assert_contains(world->err, "-: ");
}

static void shards_one_after_the_other_are_the_whole(void **state)
{
    cli_world *world = *state;
    static const char *const shards[] = { "1/3", "2/3", "3/3" };
    size_t used = 0;

    assert_int_equal(RUN(world, "embed", "-m", world->model, "-o", in_folder(world, "all.npy"),
                         GOOD), 0);
    matrix all = read_npy(in_folder(world, "all.npy"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(RUN(world, "embed", "-m", world->model, "--shard", shards[i], "-o",
                             in_folder(world, "part.npy"), GOOD), 0);
        matrix part = read_npy(in_folder(world, "part.npy"));
        assert_true(used + part.rows <= all.rows);
        assert_memory_equal(part.values, all.values + used * all.columns,
                            part.rows * part.columns * sizeof(float));
        used += part.rows;
        free(part.content);
    }
    assert_int_equal(used, all.rows);
    free(all.content);
}

static void an_empty_folder_gives_an_empty_matrix(void **state)
{
    cli_world *world = *state;

    mkdir(in_folder(world, "nothing"), 0700);
    assert_int_equal(embed_folder(world, in_folder(world, "nothing")), 0);
    assert_contains(world->err, "no pictures found");
    matrix m = read_npy(in_folder(world, "e.npy"));
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.columns, 64);
    free(m.content);
    assert_lines(world, "");
}

static void a_missing_path_fails_alone(void **state)
{
    cli_world *world = *state;

    assert_int_equal(RUN(world, "embed", "-m", world->model, "-o", in_folder(world, "e.npy"),
                         "no/such.jpg", CAT), 1);
    char *lines = read_whole(in_folder(world, "e.jsonl"), NULL);
    assert_contains(lines, "{\"path\": \"no/such.jpg\", \"error\": \"");
    assert_contains(lines, "{\"path\": \"" CAT "\", \"row\": 0}\n");
    assert_contains(world->err, "no/such.jpg: ");
    free(lines);
}

static void the_model_may_come_from_the_environment_and_the_cache(void **state)
{
    cli_world *world = *state;

    setenv("FLATCLIP_MODEL", world->model, 1);
    assert_int_equal(RUN(world, "embed", CAT), 0);
    assert_contains(world->err, "tiny.safetensors");
    setenv("FLATCLIP_MODEL", "", 1);
    assert_int_equal(RUN(world, "embed", CAT), 3);
    unsetenv("FLATCLIP_MODEL");
    copy_file(world->model, in_folder(world, "ViT-B-32.safetensors"));
    assert_int_equal(RUN(world, "embed", CAT), 0);
    assert_contains(world->err, "ViT-B-32.safetensors");
    unlink(in_folder(world, "ViT-B-32.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_odd_name_survives_and_hidden_ones_are_skipped),
        cmocka_unit_test(a_list_ends_names_with_newline_or_nul),
        cmocka_unit_test(a_dash_is_the_picture_on_standard_input),
        cmocka_unit_test(shards_one_after_the_other_are_the_whole),
        cmocka_unit_test(an_empty_folder_gives_an_empty_matrix),
        cmocka_unit_test(a_missing_path_fails_alone),
        cmocka_unit_test(the_model_may_come_from_the_environment_and_the_cache),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
