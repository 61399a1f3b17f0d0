/* The public header stands alone, in C11 and C++17, without a warning; and the tree keeps its
 * layers: who may include whom, and no two files of one name. */
#define _GNU_SOURCE
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Runs a shell command; returns its exit status. */
static int run(const char *command)
{
    fflush(NULL);
    return system(command);
}

static int have(const char *program)
{
    char command[256];
    snprintf(command, sizeof command, "command -v %s > /dev/null", program);
    return run(command) == 0;
}

/* Compiles a file that includes the header twice and uses every INIT macro. */
static int compiles(const char *compiler, const char *language, const char *standard)
{
    char command[1024];
    snprintf(command, sizeof command,
             "printf '%%s\\n' '#include <flatclip.h>' '#include <flatclip.h>' "
             "'int use(void);' 'int use(void) {' "
             "'flatclip_model_options m = FLATCLIP_MODEL_OPTIONS_INIT;' "
             "'flatclip_session_options s = FLATCLIP_SESSION_OPTIONS_INIT;' "
             "'flatclip_model_info i = FLATCLIP_MODEL_INFO_INIT;' "
             "'flatclip_memory n = FLATCLIP_MEMORY_INIT;' "
             "'return (int)(m.struct_size + s.struct_size + i.struct_size + n.struct_size); }' | "
             "%s -x %s -std=%s -Wall -Wextra -Wpedantic -Wshadow -Werror -Iinclude -fsyntax-only -",
             compiler, language, standard);
    return run(command) == 0;
}

static void public_header_compiles_as_c11_without_a_warning(void **state)
{
    (void)state;
    const char *compiler = getenv("CC");
    assert_true(compiles(compiler && *compiler ? compiler : "cc", "c", "c11"));
}

static void public_header_compiles_as_cxx17_without_a_warning(void **state)
{
    (void)state;
    const char *compiler = have("g++") ? "g++" : have("clang++") ? "clang++" : NULL;
    if (!compiler) {
        printf("note: no C++ compiler here, the header is not tried as C++17\n");
        skip();
    }
    assert_true(compiles(compiler, "c++", "c++17"));
}

/* -- The tree ---------------------------------------------------------------------------------- */

static const char *const folders[] = { "include",       "engine", "kernels",
                                       "weights_tools", "cli",    "bench" };

enum { MAX_FILES = 1024 };
static char *files[MAX_FILES]; /* paths of all C and CUDA sources and headers below folders */
static int file_count;

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static int collect(const char *path, const struct stat *info, int kind, struct FTW *position)
{
    (void)info;
    (void)position;
    if (kind == FTW_F &&
        (ends_with(path, ".c") || ends_with(path, ".h") || ends_with(path, ".cu") ||
         ends_with(path, ".cuh")) &&
        file_count < MAX_FILES)
        files[file_count++] = strdup(path);
    return 0;
}

static int list_tree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        nftw(folders[i], collect, 16, FTW_PHYS);
    return file_count > 0 && file_count < MAX_FILES ? 0 : -1;
}

static int free_tree(void **state)
{
    (void)state;
    while (file_count > 0)
        free(files[--file_count]);
    return 0;
}

static void file_names_are_unique(void **state)
{
    (void)state;
    int problems = 0;
    for (int i = 0; i < file_count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(base_name(files[i]), base_name(files[k])) == 0) {
                print_error("%s and %s have the same name\n", files[i], files[k]);
                problems++;
            }
    assert_int_equal(problems, 0);
}

/* Layer: files below folder may include, of our headers, only what starts with one of these. */
static const struct {
    const char *folder;
    const char *may[8];
} layers[] = {
    { "include/", { "std" } },
    { "engine/base/", { "flatclip.h", "engine/base/" } },
    { "engine/image/", { "flatclip.h", "engine/base/", "engine/image/" } },
    { "engine/", { "flatclip.h", "engine/", "kernels/launch.h" } },
    { "kernels/", { "kernels/" } },
    { "weights_tools/", { "flatclip.h", "engine/base/", "weights_tools/" } },
    { "cli/", { "flatclip.h", "cli/", "weights_tools/", "engine/base/" } },
    { "bench/", { "flatclip.h", "engine/", "bench/", "weights_tools/", "kernels/launch.h" } },
};

static int may_include(const char *path, const char *header)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        if (strncmp(path, layers[i].folder, strlen(layers[i].folder)) != 0)
            continue;
        for (int k = 0; k < 8 && layers[i].may[k]; k++)
            if (strncmp(header, layers[i].may[k], strlen(layers[i].may[k])) == 0)
                return 1;
        return 0;
    }
    return 1;
}

static void layers_include_only_what_lies_below_them(void **state)
{
    (void)state;
    int problems = 0, includes = 0;
    for (int i = 0; i < file_count; i++) {
        char line[1024], header[512];
        FILE *file = fopen(files[i], "r");
        assert_non_null(file);
        while (fgets(line, sizeof line, file)) {
            if (sscanf(line, " # include \"%511[^\"]\"", header) != 1)
                continue;
            includes++;
            if (!may_include(files[i], header)) {
                print_error("%s must not include %s\n", files[i], header);
                problems++;
            }
        }
        fclose(file);
    }
    assert_true(includes > 10);
    assert_int_equal(problems, 0);
}

/* Kernels are proven against models of the machine, so that they must not reach past them. */
static void kernels_touch_the_machine_in_one_file_alone(void **state)
{
    static const char *const machine[] = { "asm", "__shared__", "<<<", "__CUDA", "__shfl",
                                           "__global__", "__expf", "__fdividef" };
    int problems = 0, kernels = 0;
    (void)state;
    for (int i = 0; i < file_count; i++) {
        char line[1024];
        if (strncmp(files[i], "kernels/", 8) || !strcmp(base_name(files[i]), "device.cuh"))
            continue;
        FILE *file = fopen(files[i], "r");
        assert_non_null(file);
        kernels++;
        while (fgets(line, sizeof line, file))
            for (size_t k = 0; k < sizeof machine / sizeof *machine; k++)
                if (strstr(line, machine[k])) {
                    print_error("%s has %s: only device.cuh may\n", files[i], machine[k]);
                    problems++;
                }
        fclose(file);
    }
    assert_true(kernels >= 5);
    assert_int_equal(problems, 0);
}

static void no_line_is_longer_than_100_columns(void **state)
{
    (void)state;
    int problems = 0;
    for (int i = 0; i < file_count; i++) {
        char line[1024];
        FILE *file = fopen(files[i], "r");
        assert_non_null(file);
        for (int number = 1; fgets(line, sizeof line, file); number++)
            if (strcspn(line, "\n") > 100) {
                print_error("%s, line %d\n", files[i], number);
                problems++;
            }
        fclose(file);
    }
    assert_int_equal(problems, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_header_compiles_as_c11_without_a_warning),
        cmocka_unit_test(public_header_compiles_as_cxx17_without_a_warning),
        cmocka_unit_test(file_names_are_unique),
        cmocka_unit_test(layers_include_only_what_lies_below_them),
        cmocka_unit_test(kernels_touch_the_machine_in_one_file_alone),
        cmocka_unit_test(no_line_is_longer_than_100_columns),
    };
    return cmocka_run_group_tests(tests, list_tree, free_tree);
}
