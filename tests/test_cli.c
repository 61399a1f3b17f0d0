/* The real program from outside: results, exit codes, messages. */
#include "tests/test_cli_process.h"

#include <dirent.h>
#include <math.h>
#include <sys/resource.h>

#include "engine/base/safetensors.h"

#define GOOD "tests/data/images/good"
#define BAD "tests/data/images/bad"
#define CAT GOOD "/cat_420.jpg"

enum { GOOD_COUNT = 35, BAD_COUNT = 10, TINY_COLUMNS = 64 };

/* -- Results --------------------------------------------------------------------------------- */

static void assert_golden_rows(const matrix *m)
{
    fc_safetensors *golden;
    float expected[TINY_COLUMNS];

    assert_int_equal(m->rows, GOOD_COUNT);
    assert_int_equal(m->columns, TINY_COLUMNS);
    assert_int_equal(fc_safetensors_open("tests/data/image_tiny.safetensors", &golden, NULL), 0);
    const fc_tensor *unit = fc_safetensors_find(golden, "unit");
    assert_non_null(unit);
    assert_int_equal(unit->count, GOOD_COUNT * TINY_COLUMNS);
    for (size_t row = 0; row < m->rows; row++) {
        assert_int_equal(fc_safetensors_read_f32(golden, unit, row * TINY_COLUMNS, TINY_COLUMNS,
                                                 expected, NULL), 0);
        for (size_t i = 0; i < TINY_COLUMNS; i++) {
            const double error = fabs((double)m->values[row * TINY_COLUMNS + i] - expected[i]);
            if (!(error <= 1e-6))
                fail_msg("row %zu, column %zu is off by %g", row, i, error);
        }
    }
    fc_safetensors_close(golden);
}

static void rows_equal_the_golden_in_path_order(void **state)
{
    cli_world *world = *state;
    char *names = read_whole("tests/data/images.txt", NULL);
    char line[PATH_BYTES];
    int row = 0;

    assert_int_equal(RUN(world, "embed", "-m", world->model, "--device", "cpu", "-o",
                         in_folder(world, "e.npy"), GOOD), 0);
    matrix m = read_npy(in_folder(world, "e.npy"));
    assert_golden_rows(&m);

    char *lines = read_whole(in_folder(world, "e.jsonl"), NULL);
    assert_int_equal(count_lines(lines), GOOD_COUNT);
    for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n")) {
        snprintf(line, sizeof line, "{\"path\": \"" GOOD "/%s\", \"row\": %d}\n", name, row++);
        assert_contains(lines, line);
    }
    assert_int_equal(row, GOOD_COUNT);
    assert_string_equal(world->out, "");
    assert_contains(world->err, "inputs 35, rows 35, errors 0");
    free(m.content);
    free(lines);
    free(names);
}

static void bad_files_get_errors_and_the_rest_is_untouched(void **state)
{
    cli_world *world = *state;

    assert_int_equal(RUN(world, "embed", "-m", world->model, "-o", in_folder(world, "both.npy"),
                         BAD, GOOD), 1);
    matrix m = read_npy(in_folder(world, "both.npy"));
    char *lines = read_whole(in_folder(world, "both.jsonl"), NULL);
    assert_golden_rows(&m);
    assert_int_equal(count_of(lines, "\"row\": "), GOOD_COUNT);
    assert_int_equal(count_of(lines, "\"error\": \""), BAD_COUNT);
    assert_contains(lines, "{\"path\": \"" BAD "/zero_width.png\", \"error\": ");
    assert_contains(world->err, BAD "/empty.jpg: ");
    assert_contains(world->err, "inputs 45, rows 35, errors 10");
    const int notes = strstr(world->err, "note: computed on the CPU") != NULL;
    assert_int_equal(count_lines(world->err), BAD_COUNT + 1 + notes);
    free(m.content);
    free(lines);
}

static void printed_numbers_read_back_as_the_same_floats(void **state)
{
    cli_world *world = *state;

    assert_int_equal(RUN(world, "embed", "-m", world->model, "-o", in_folder(world, "one.npy"),
                         CAT), 0);
    matrix m = read_npy(in_folder(world, "one.npy"));
    assert_int_equal(RUN(world, "embed", "-m", world->model, "--quiet", CAT), 0);
    assert_string_equal(world->err, "");
    assert_int_equal(count_lines(world->out), 1);
    char *number = strstr(world->out, "\"embedding\": [");
    assert_non_null(number);
    number += strlen("\"embedding\": [");
    for (size_t i = 0; i < m.columns; i++, number++) {
        const float value = strtof(number, &number);
        assert_memory_equal(&value, &m.values[i], sizeof value);
        assert_int_equal(*number, i + 1 < m.columns ? ',' : ']');
    }

    assert_int_equal(RUN(world, "embed", "-m", world->model, "-q", "-o",
                         in_folder(world, "one.jsonl"), CAT), 0);
    char *lines = read_whole(in_folder(world, "one.jsonl"), NULL);
    assert_contains(lines, "\"row\": 0, \"embedding\": [");
    free(lines);
    free(m.content);
}

static void info_describes_the_model_as_text_and_json(void **state)
{
    cli_world *world = *state;

    assert_int_equal(RUN(world, "info", world->model), 0);
    assert_contains(world->out, "synth tiny seed 1");
    assert_contains(world->out, "50 tokens; width 128, layers 2, heads 2");
    assert_contains(world->out, "visual.transformer.resblocks.*.mlp.c_fc.weight");
    assert_int_equal(RUN(world, "info", "--map", "--batch", "3", world->model), 0);
    assert_contains(world->out, "batches of up to 3");
    assert_contains(world->out, "visual.transformer.resblocks.1.mlp.c_fc.weight");
    assert_int_equal(RUN(world, "info", world->model, "--json"), 0);
    assert_contains(world->out, "\"embed_dim\": 64,\n");
    assert_contains(world->out, "\"regions\": [\n");
}

/* -- Misuse ---------------------------------------------------------------------------------- */

static void wrong_command_lines_end_with_2_and_say_what_is_meant(void **state)
{
    cli_world *world = *state;

    assert_int_equal(RUN(world, "embed", "--treads", "2", CAT), 2);
    assert_contains(world->err, "unknown option --treads; did you mean --threads?");
    assert_int_equal(RUN(world, "embde", CAT), 2);
    assert_contains(world->err, "unknown command embde; did you mean embed?");
    assert_int_equal(RUN(world, "embed", "--batch"), 2);
    assert_contains(world->err, "--batch needs a value: a number of images, 1 to 1024");
    assert_int_equal(RUN(world, "embed", "--batch", "0", CAT), 2);
    assert_contains(world->err, "--batch is \"0\", expected a number of images, 1 to 1024");
    assert_int_equal(RUN(world, "embed", "-o", "e.csv", CAT), 2);
    assert_contains(world->err, "ending in .npy or .jsonl");
    assert_int_equal(RUN(world, "embed", "--text", "a photo of a cat"), 2);
    assert_contains(world->err, "this version has no --text yet");
    assert_int_equal(RUN(world, "embed", "--shard", "0/4", CAT), 2);
    assert_contains(world->err, "counted from 1");
    assert_int_equal(RUN(world, "embed", "-", "-"), 2);
    assert_contains(world->err, "only once");
    assert_int_equal(RUN(world, "embed", "--from-file", in_folder(world, "nothing")), 2);
    assert_contains(world->err, "cannot read the list");
    assert_int_equal(RUN(world, "embed"), 2);
    assert_int_equal(RUN(world, "synth", "--config", "large", "-o", in_folder(world, "x")), 2);
    assert_contains(world->err, "vitb32");
    assert_int_equal(RUN(world, "convert", "-o", in_folder(world, "x")), 2);
    assert_contains(world->err, "SOURCE is missing");
}

static void what_cannot_be_used_ends_with_3_and_its_name(void **state)
{
    cli_world *world = *state;

    assert_int_equal(RUN(world, "embed", "-m", in_folder(world, "no.safetensors"), CAT), 3);
    assert_contains(world->err, "no.safetensors");
    assert_int_equal(RUN(world, "embed", CAT), 3); /* an empty cache folder */
    assert_contains(world->err, "ViT-B-32.safetensors. `flatclip fetch` gets one");
    assert_int_equal(RUN(world, "embed", "-m", CAT, CAT), 3);
    assert_contains(world->err, "cat_420.jpg");
    assert_int_equal(RUN(world, "embed", "-m", world->model, "--device", "cuda:1023", CAT), 3);
    assert_contains(world->err, "cuda");
    assert_int_equal(RUN(world, "embed", "-m", world->model, "--device", "cpu", "--precision",
                         "f16", CAT), 3);
    assert_contains(world->err, "f16");
    assert_int_equal(RUN(world, "convert", in_folder(world, "no"), "-o", in_folder(world, "x")), 3);
}

static void outputs_that_cannot_be_written_end_with_3(void **state)
{
    cli_world *world = *state;

    assert_int_equal(RUN(world, "embed", "-m", world->model, "-o",
                         in_folder(world, "missing/e.npy"), CAT), 3);
    assert_contains(world->err, "missing/e.npy: No such file or directory; make the folder first");
    assert_int_equal(mkdir(in_folder(world, "folder.npy"), 0700), 0);
    assert_int_equal(RUN(world, "embed", "-m", world->model, "-o", in_folder(world, "folder.npy"),
                         CAT), 3);
    assert_contains(world->err, "it is a folder");
    assert_int_equal(wait_cli(world, start_cli(world, NULL, "/dev/full",
                                               ARGUMENTS("embed", "-m", world->model, CAT))), 3);
    assert_contains(world->err, "standard output: No space left on device");
    assert_int_equal(wait_cli(world, start_cli(world, NULL, "/dev/full",
                                               ARGUMENTS("embed", "--help"))), 3);
}

/* Temporary files begin with a dot. */
static int count_hidden(const cli_world *world)
{
    DIR *folder = opendir(world->folder);
    const struct dirent *entry;
    int count = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL)
        count += entry->d_name[0] == '.' && strcmp(entry->d_name, ".") != 0 &&
                 strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count;
}

static void a_full_disk_is_found_first_and_leaves_the_old_output(void **state)
{
    cli_world *world = *state;
    struct rlimit before, low;

    write_whole(in_folder(world, "old.npy"), "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = 1024;
    setrlimit(RLIMIT_FSIZE, &low);
    const pid_t pid = start_cli(world, NULL, NULL,
                                ARGUMENTS("embed", "-m", world->model, "-o",
                                          in_folder(world, "old.npy"), GOOD));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(wait_cli(world, pid), 3);
    assert_contains(world->err, "old.npy: it needs ");
    assert_contains(world->err, "ulimit -f");
    char *old = read_whole(in_folder(world, "old.npy"), NULL);
    assert_string_equal(old, "old");
    free(old);
    assert_missing(in_folder(world, "old.jsonl"));
    assert_int_equal(count_hidden(world), 0);
}

/* -- While it runs --------------------------------------------------------------------------- */

/* Starts the program on a named pipe and waits until it reads it: it is in the middle of its work
 * then, and stays there until the pipe is written or closed. output is a file for its results, or
 * NULL if they go to the file printed. */
static pid_t start_waiting(cli_world *world, const char *threads, const char *output,
                           const char *printed, int *writer)
{
    const char *fifo = in_folder(world, "picture");

    unlink(fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const pid_t pid = start_cli(world, NULL, printed,
                                ARGUMENTS("embed", "-q", "-m", world->model, "--threads", threads,
                                          fifo, output ? "-o" : NULL, output));
    *writer = open(fifo, O_WRONLY);
    assert_true(*writer >= 0);
    return pid;
}

static void send_picture(int writer)
{
    size_t bytes;
    char *cat = read_whole(CAT, &bytes);

    assert_true(write(writer, cat, bytes) == (ssize_t)bytes);
    close(writer);
    free(cat);
}

static void a_closed_pipe_ends_the_run_without_a_word(void **state)
{
    cli_world *world = *state;
    const char *printed = in_folder(world, "printed");
    int writer;

    assert_int_equal(mkfifo(printed, 0600), 0);
    const int reader = open(printed, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    const pid_t pid = start_waiting(world, "2", NULL, printed, &writer);
    close(reader);
    send_picture(writer);
    assert_int_equal(wait_cli(world, pid), 3);
    assert_string_equal(world->err, "");
}

static int count_tasks(pid_t pid)
{
    char name[64];
    int tasks = 0;

    snprintf(name, sizeof name, "/proc/%ld/task", (long)pid);
    DIR *folder = opendir(name);
    assert_non_null(folder);
    while (readdir(folder))
        tasks++;
    closedir(folder);
    return tasks - 2; /* "." and ".." */
}

static void threads_are_never_more_than_asked_for(void **state)
{
    cli_world *world = *state;
    static const char *const asked[] = { "1", "2", "5" };
    int writer;

    for (int i = 0; i < 3; i++) {
        const pid_t pid = start_waiting(world, asked[i], in_folder(world, "t.npy"), NULL, &writer);
        const int tasks = count_tasks(pid);
        send_picture(writer);
        assert_int_equal(wait_cli(world, pid), 0);
        assert_in_range(tasks, 1, atoi(asked[i]));
    }
}

static void a_signal_removes_what_is_unfinished(void **state)
{
    cli_world *world = *state;
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    int writer;

    write_whole(in_folder(world, "kept.npy"), "old", 3);
    for (int i = 0; i < 3; i++) {
        const pid_t pid = start_waiting(world, "2", in_folder(world, "kept.npy"), NULL,
                                        &writer);
        assert_int_equal(count_hidden(world), 2);
        kill(pid, signals[i]);
        assert_int_equal(wait_cli(world, pid), 128 + signals[i]);
        close(writer);
        assert_int_equal(count_hidden(world), 0);
    }
    char *old = read_whole(in_folder(world, "kept.npy"), NULL);
    assert_string_equal(old, "old");
    free(old);
    assert_missing(in_folder(world, "kept.jsonl"));
}

/* -- Help ------------------------------------------------------------------------------------ */

static void help_goes_to_standard_output_and_fits_a_terminal(void **state)
{
    cli_world *world = *state;
    static const char *const commands[] = { "embed", "info", "synth", "convert" };

    assert_int_equal(RUN(world, "--help"), 0);
    assert_contains(world->out, "Exit codes");
    assert_int_equal(RUN(world, "--version"), 0);
    assert_contains(world->out, "flatclip 0.");
    assert_int_equal(RUN(world, NULL), 2);
    assert_string_equal(world->out, "");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(RUN(world, commands[i], "--help"), 0);
        assert_string_equal(world->err, "");
        assert_contains(world->out, "Usage: flatclip ");
        assert_contains(world->out, "Exit codes\n");
        assert_contains(world->out, "Example");
        for (char *line = strtok(world->out, "\n"); line; line = strtok(NULL, "\n"))
            assert_in_range(strlen(line), 1, 96);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_equal_the_golden_in_path_order),
        cmocka_unit_test(bad_files_get_errors_and_the_rest_is_untouched),
        cmocka_unit_test(printed_numbers_read_back_as_the_same_floats),
        cmocka_unit_test(info_describes_the_model_as_text_and_json),
        cmocka_unit_test(wrong_command_lines_end_with_2_and_say_what_is_meant),
        cmocka_unit_test(what_cannot_be_used_ends_with_3_and_its_name),
        cmocka_unit_test(outputs_that_cannot_be_written_end_with_3),
        cmocka_unit_test(a_full_disk_is_found_first_and_leaves_the_old_output),
        cmocka_unit_test(a_closed_pipe_ends_the_run_without_a_word),
        cmocka_unit_test(threads_are_never_more_than_asked_for),
        cmocka_unit_test(a_signal_removes_what_is_unfinished),
        cmocka_unit_test(help_goes_to_standard_output_and_fits_a_terminal),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
