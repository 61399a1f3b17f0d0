/* Runs the real program and looks at what it leaves: for the tests of the command line.
 *
 * The program is $FLATCLIP_BIN, else build/flatclip. Everything lies in one temporary folder, with
 * a tiny synthetic model that the program itself makes. */
#ifndef TEST_CLI_PROCESS_H
#define TEST_CLI_PROCESS_H

#include "tests/test_cli_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
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

#include "cli/path_list.h"

extern char **environ;

enum { MAX_ARGUMENTS = 32, PATH_BYTES = 512 };

typedef struct {
    char folder[PATH_BYTES];
    char model[PATH_BYTES];
    fc_path_list paths; /* those that in_folder returned */
    int code;           /* exit code of the last run; -1 if a signal ended it */
    char *out, *err;    /* what it printed */
} cli_world;

/* The path of name in the world's folder; lives as long as the world. */
static inline const char *in_folder(cli_world *world, const char *name)
{
    assert_int_equal(fc_path_list_join(&world->paths, world->folder, name, NULL), FLATCLIP_OK);
    return world->paths.paths[world->paths.count - 1];
}

/* The content of a file with a NUL behind it, the caller's to free; NULL if it cannot be read. */
static inline char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    size_t used = 0, capacity = 1 << 16;
    char *content = file ? malloc(capacity) : NULL;

    while (content) {
        used += fread(content + used, 1, capacity - used - 1, file);
        if (used < capacity - 1)
            break;
        content = realloc(content, capacity *= 2);
    }
    if (file)
        fclose(file);
    if (content)
        content[used] = '\0';
    if (bytes)
        *bytes = used;
    return content;
}

static inline void write_whole(const char *path, const void *content, size_t bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void copy_file(const char *from, const char *to)
{
    size_t bytes;
    char *content = read_whole(from, &bytes);

    assert_non_null(content);
    write_whole(to, content, bytes);
    free(content);
}

/* Starts the program; input, output: files for its standard streams, or NULL for none and for the
 * world's own. */
static inline pid_t start_cli(cli_world *world, const char *input, const char *output,
                              const char *const *arguments)
{
    const char *program = getenv("FLATCLIP_BIN");
    char *argv[MAX_ARGUMENTS + 2];
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int count = 0;

    argv[count++] = (char *)(program ? program : "build/flatclip");
    for (int i = 0; arguments[i]; i++) {
        assert_true(count <= MAX_ARGUMENTS);
        argv[count++] = (char *)arguments[i];
    }
    argv[count] = NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, input ? input : "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output ? output : in_folder(world, "stdout"),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, in_folder(world, "stderr"),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int failed = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        fail_msg("cannot run %s: %s; build it or set FLATCLIP_BIN", argv[0], strerror(failed));
    return pid;
}

static inline int wait_cli(cli_world *world, pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    free(world->out);
    free(world->err);
    world->out = read_whole(in_folder(world, "stdout"), NULL);
    world->err = read_whole(in_folder(world, "stderr"), NULL);
    world->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return world->code;
}

#define ARGUMENTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Runs the program to its end; returns its exit code. NULL stands for no arguments. */
#define RUN(world, ...) \
    wait_cli((world), start_cli((world), NULL, NULL, ARGUMENTS(__VA_ARGS__)))
#define RUN_WITH_INPUT(world, input, ...) \
    wait_cli((world), start_cli((world), (input), NULL, ARGUMENTS(__VA_ARGS__)))

static inline void assert_contains(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("expected \"%s\" in:\n%s", part, text ? text : "(nothing)");
}

static inline void assert_missing(const char *path)
{
    struct stat info;

    if (stat(path, &info) == 0)
        fail_msg("%s exists, but should not", path);
}

typedef struct {
    size_t rows, columns;
    float *values;
    char *content; /* to free */
} matrix;

/* Reads a .npy file of float32, checking its header. */
static inline matrix read_npy(const char *path)
{
    matrix m = { 0, 0, NULL, NULL };
    size_t bytes;

    m.content = read_whole(path, &bytes);
    if (!m.content)
        fail_msg("no %s", path);
    assert_true(bytes >= 128);
    assert_memory_equal(m.content, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_int_equal(sscanf(m.content + 10,
                            "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }",
                            &m.rows, &m.columns), 2);
    assert_int_equal(bytes, 128 + m.rows * m.columns * sizeof(float));
    m.values = (float *)(void *)(m.content + 128);
    return m;
}

static inline int count_lines(const char *text)
{
    int lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static inline int count_of(const char *text, const char *part)
{
    int count = 0;

    while ((text = strstr(text, part)) != NULL) {
        count++;
        text += strlen(part);
    }
    return count;
}

static inline int open_world(void **state)
{
    cli_world *world = calloc(1, sizeof *world);
    char *folder = make_tree();

    if (!world || !folder)
        return -1;
    snprintf(world->folder, PATH_BYTES, "%.400s", folder);
    free(folder);
    unsetenv("FLATCLIP_MODEL");
    setenv("FLATCLIP_CACHE", world->folder, 1);
    snprintf(world->model, PATH_BYTES, "%.400s/tiny.safetensors", world->folder);
    *state = world;
    if (RUN(world, "synth", "--config", "tiny", "--seed", "1", "-o", world->model) == 0)
        return 0;
    fprintf(stderr, "%s\n", world->err);
    return -1;
}

static inline int close_world(void **state)
{
    cli_world *world = *state;

    const int failed = remove_tree(world->folder);

    fc_path_list_free(&world->paths);
    free(world->out);
    free(world->err);
    free(world);
    return failed;
}

#endif
