/* From paths to inputs: order, what counts as a picture, links, loops, lists. */
#include "tests/test_cli_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/folder_set.h"
#include "cli/walk.h"

static const char jpeg[] = "\xff\xd8\xff\xe0 the beginning of a JPEG is all that counts here";

/* -- A tree to search ------------------------------------------------------------------------ */

static void put(const char *path, const char *content)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    fputs(content, file);
    assert_int_equal(fclose(file), 0);
}

static void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0700), 0);
}

/* Compares the list with expected, paths with a newline after each. */
static void assert_paths(const fc_path_list *list, const char *expected)
{
    char found[4096] = "";

    for (size_t i = 0; i < list->count; i++) {
        assert_true(strlen(found) + strlen(list->paths[i]) + 2 < sizeof found);
        strcat(strcat(found, list->paths[i]), "\n");
    }
    assert_string_equal(found, expected);
}

static fc_walk_skipped assert_walk(const char *path, const char *expected)
{
    fc_path_list list = { 0 };
    fc_walk_skipped skipped = { 0, 0 };
    flatclip_error err;

    assert_int_equal(fc_walk(path, &list, &skipped, &err), FLATCLIP_OK);
    assert_paths(&list, expected);
    fc_path_list_free(&list);
    return skipped;
}

/* -- Folders --------------------------------------------------------------------------------- */

static void a_folder_is_sorted_by_the_bytes_of_the_whole_path(void **state)
{
    (void)state;
    make_folder("t");
    make_folder("t/a");
    make_folder("t/a/deep");
    put("t/a/z.jpg", "");
    put("t/a/deep/q.png", "");
    put("t/a.jpg", "");    /* '.' sorts before '/' */
    put("t/a0.jpg", "");   /* '0' behind it */
    put("t/Z.JPG", "");
    put("t/\xc3\xa9.jpg", "");
    assert_walk("t", "t/Z.JPG\nt/a.jpg\nt/a/deep/q.png\nt/a/z.jpg\nt/a0.jpg\nt/\xc3\xa9.jpg\n");
    assert_walk("t/", "t/Z.JPG\nt/a.jpg\nt/a/deep/q.png\nt/a/z.jpg\nt/a0.jpg\nt/\xc3\xa9.jpg\n");
}

static void pictures_are_told_by_name_or_content_and_the_rest_is_counted(void **state)
{
    (void)state;
    make_folder("t");
    put("t/a.WebP", "");
    put("t/b.txt", jpeg);
    put("t/c", "\x89PNG\r\n\x1a\n and more");
    put("t/d.txt", "GIF89a is no input under another name");
    put("t/e.jpg.bak", "text");
    put("t/.f.jpg", jpeg);
    make_folder("t/.g");
    put("t/.g/h.jpg", jpeg);
    assert_int_equal(mkfifo("t/i.jpg", 0600), 0); /* must not be opened: nobody writes to it */
    assert_int_equal(symlink("nowhere.jpg", "t/j.jpg"), 0);
    const fc_walk_skipped skipped = assert_walk("t", "t/a.WebP\nt/b.txt\nt/c\n");
    assert_int_equal(skipped.hidden, 2);
    assert_int_equal(skipped.other, 4);
}

static void what_is_named_is_an_input_whatever_it_is(void **state)
{
    (void)state;
    put(".hidden.txt", "text");
    const fc_walk_skipped skipped = assert_walk(".hidden.txt", ".hidden.txt\n");
    assert_int_equal(skipped.hidden + skipped.other, 0);
    assert_walk("missing.jpg", "missing.jpg\n");
    assert_walk("", "\n");
}

static void names_of_pictures_are_known_in_any_case(void **state)
{
    static const char *const yes[] = { "a.jpg", "A.JPEG", ".png", "x.y.Gif", "a.webp", "a.HEIC" };
    static const char *const no[] = { "jpg", "a.jpgx", "a.", "", "a.jp", "a.jpg " };

    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        assert_true(fc_walk_is_picture_name(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(fc_walk_is_picture_name(no[i]));
}

static void links_to_files_are_inputs_and_loops_end(void **state)
{
    (void)state;
    make_folder("t");
    make_folder("t/sub");
    make_folder("elsewhere");
    put("outside.jpg", jpeg);
    put("t/sub/a.jpg", jpeg);
    put("elsewhere/b.jpg", jpeg);
    assert_int_equal(symlink("../outside.jpg", "t/link.jpg"), 0);
    assert_int_equal(symlink("..", "t/sub/up"), 0);       /* the folder that is searched */
    assert_int_equal(symlink("../..", "t/sub/upper"), 0); /* above it */
    assert_int_equal(symlink("/", "t/root"), 0);
    assert_int_equal(symlink(".", "t/self"), 0);
    assert_int_equal(symlink("sub", "t/again"), 0);       /* before sub, but no real name */
    for (char name[] = "t/z"; name[2] >= 'm'; name[2]--)  /* the first of many names is taken */
        assert_int_equal(symlink("../elsewhere", name), 0);
    const fc_walk_skipped skipped = assert_walk("t", "t/link.jpg\nt/m/b.jpg\nt/sub/a.jpg\n");
    assert_int_equal(skipped.other, 5 + 'z' - 'm');
}

static void a_folder_that_cannot_be_read_stays_as_a_failing_input(void **state)
{
    (void)state;
    make_folder("t");
    make_folder("t/closed");
    put("t/closed/a.jpg", jpeg);
    put("t/z.jpg", jpeg);
    chmod(".", 0755);
    chmod("t", 0755);
    chmod("t/z.jpg", 0644);
    assert_int_equal(chmod("t/closed", 0), 0);

    /* Root may read everything, so a child that is not root looks. */
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fc_path_list list = { 0 };
        fc_walk_skipped skipped = { 0, 0 };
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(2);
        const int good = fc_walk("t", &list, &skipped, NULL) == FLATCLIP_OK && list.count == 2 &&
                         strcmp(list.paths[0], "t/closed") == 0 &&
                         strcmp(list.paths[1], "t/z.jpg") == 0;
        fc_path_list_free(&list);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    chmod("t/closed", 0700);
    assert_int_equal(status, 0);
}

static void a_set_of_folders_tells_new_from_known(void **state)
{
    fc_folder_set set = { 0 };

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 1; i <= 5000; i++) {
            const fc_folder_id id = { i % 3, i };
            assert_int_equal(fc_folder_set_add(&set, id), round == 0);
        }
    }
    assert_int_equal(set.count, 5000);
    fc_folder_set_free(&set);
}

/* -- Lists ----------------------------------------------------------------------------------- */

static void assert_list(const char *content, size_t bytes, int only_nul, const char *expected)
{
    fc_path_list list = { 0 };
    flatclip_error err;
    FILE *file = fopen("list", "wb");

    assert_non_null(file);
    fwrite(content, 1, bytes, file);
    fclose(file);
    assert_int_equal(fc_path_list_read(&list, "list", only_nul, &err), FLATCLIP_OK);
    assert_paths(&list, expected);
    fc_path_list_free(&list);
}

#define LIST(content) content, sizeof(content) - 1

static void lists_end_names_with_newline_or_with_nul(void **state)
{
    (void)state;
    assert_list(LIST(""), 0, "");
    assert_list(LIST("\n\n"), 0, "");
    assert_list(LIST("a b\nc"), 0, "a b\nc\n");
    assert_list(LIST("a\r\n\r\nb\r\n"), 0, "a\nb\n");
    assert_list(LIST(" a \n"), 0, " a \n");
    assert_list(LIST("a\nb\0c\r\0\0"), 0, "a\nb\nc\r\n"); /* three lines, two names */
    assert_list(LIST("a\nb"), 1, "a\nb\n");
}

static void long_lists_are_read_whole(void **state)
{
    fc_path_list list = { 0 };
    flatclip_error err;
    FILE *file = fopen("list", "wb");

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < 50000; i++)
        fprintf(file, "folder/%d.jpg\n", i);
    fclose(file);
    assert_int_equal(fc_path_list_read(&list, "list", 0, &err), FLATCLIP_OK);
    assert_int_equal(list.count, 50000);
    assert_string_equal(list.paths[0], "folder/0.jpg");
    assert_string_equal(list.paths[49999], "folder/49999.jpg");
    fc_path_list_free(&list);
    assert_int_equal(fc_path_list_read(&list, "missing", 0, &err), FLATCLIP_ERR_IO);
    assert_string_equal(err.message, "cannot read the list missing: No such file or directory");
    assert_int_equal(fc_path_list_read(&list, ".", 0, &err), FLATCLIP_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_folder_is_sorted_by_the_bytes_of_the_whole_path),
        IN_FOLDER(pictures_are_told_by_name_or_content_and_the_rest_is_counted),
        IN_FOLDER(what_is_named_is_an_input_whatever_it_is),
        IN_FOLDER(names_of_pictures_are_known_in_any_case),
        IN_FOLDER(links_to_files_are_inputs_and_loops_end),
        IN_FOLDER(a_folder_that_cannot_be_read_stays_as_a_failing_input),
        IN_FOLDER(a_set_of_folders_tells_new_from_known),
        IN_FOLDER(lists_end_names_with_newline_or_with_nul),
        IN_FOLDER(long_lists_are_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
