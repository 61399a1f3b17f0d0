/* `make install` into an empty folder gives a stranger what he needs: the README's example
 * compiles and runs against it, static and shared, found by pkg-config or by hand. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char root[64]; /* of the installation */

/* Runs a formatted shell command; fails the test and shows the command if it fails. */
__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
    char command[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    fflush(NULL);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

static const char *compiler(void)
{
    const char *cc = getenv("CC");
    return cc && *cc ? cc : "cc";
}

static int is_instrumented(void)
{
    const char *folder = getenv("BIN");
    return folder && strcmp(folder, "build") != 0;
}

/* The release configuration, with the compiler and flags that this build used: nothing is
 * compiled again. */
static int install_into_a_folder(void **state)
{
    (void)state;
    if (is_instrumented())
        return 0;
    strcpy(root, "build/installed-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    char command[512];
    snprintf(
        command, sizeof command,
        "make -s --no-print-directory install DESTDIR=\"$PWD/%s\" PREFIX=/opt/flat > %s/log 2>&1 "
        "|| { cat %s/log; exit 1; }",
        root, root, root);
    if (system(command) != 0)
        return -1;
    snprintf(command, sizeof command,
             "sed -n '/^```c$/,/^```$/p' README.md | sed '/^```/d' > %s/example.c", root);
    return system(command);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    if (!root[0])
        return 0;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void installs_every_file_and_nothing_of_the_build_folder(void **state)
{
    (void)state;
    if (is_instrumented())
        skip();
    static const char *const files[] = {
        "bin/flatclip",       "include/flatclip.h",   "lib/libflatclip.a",
        "lib/libflatclip.so", "lib/libflatclip.so.0", "lib/pkgconfig/flatclip.pc",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        run("test -s %s/opt/flat/%s", root, files[i]);
    run("test $(find %s/opt/flat ! -type d | wc -l) -eq 7", root);
    run("! grep -q \"$PWD\" %s/opt/flat/lib/pkgconfig/flatclip.pc", root);
    run("grep -q '^prefix=/opt/flat$' %s/opt/flat/lib/pkgconfig/flatclip.pc", root);
    run("cmp -s include/flatclip.h %s/opt/flat/include/flatclip.h", root);
}

static void example_runs_against_the_static_library(void **state)
{
    (void)state;
    if (is_instrumented())
        skip();
    run("cd %s && %s -std=c11 -Wall -Werror example.c -Iopt/flat/include "
        "opt/flat/lib/libflatclip.a -ljpeg -lpng -lz -lcjson "
        "$(sed -n 's/^Libs.private: //p' opt/flat/lib/pkgconfig/flatclip.pc) -o static",
        root, compiler());
    run("%s/static build/models/tiny.safetensors tests/data/images/good/cat_420.jpg "
        "| grep -q '^64 numbers'",
        root);
}

static void example_runs_against_the_shared_library(void **state)
{
    (void)state;
    if (is_instrumented())
        skip();
    /* Nothing but our library on the line: the rest is its own business. */
    run("cd %s && %s -std=c11 -Wall -Werror example.c -Iopt/flat/include -Lopt/flat/lib -lflatclip "
        "-o shared",
        root, compiler());
    run("LD_LIBRARY_PATH=%s/opt/flat/lib %s/shared build/models/tiny.safetensors "
        "tests/data/images/good/cat_420.jpg | grep -q '^64 numbers'",
        root, root);
}

static void pkg_config_finds_both(void **state)
{
    (void)state;
    if (is_instrumented())
        skip();
    if (system("command -v pkg-config > /dev/null") != 0) {
        printf("note: no pkg-config here, flatclip.pc is not tried\n");
        skip();
    }
    char pkg[256];
    snprintf(pkg, sizeof pkg,
             "PKG_CONFIG_PATH=opt/flat/lib/pkgconfig pkg-config "
             "--define-variable=prefix=\"$PWD/opt/flat\"");
    run("cd %s && %s --exact-version=$(sed -n 's/^Version: //p' "
        "opt/flat/lib/pkgconfig/flatclip.pc) "
        "flatclip",
        root, pkg);
    run("cd %s && %s example.c $(%s --cflags --libs flatclip) -o pkg-shared", root, compiler(),
        pkg);
    run("cd %s && %s example.c $(%s --cflags flatclip) -Lopt/flat/lib -l:libflatclip.a "
        "$(%s --static --libs flatclip | sed 's/-lflatclip//') -o pkg-static",
        root, compiler(), pkg, pkg);
    run("cd %s && LD_LIBRARY_PATH=opt/flat/lib ./pkg-shared "
        "\"$OLDPWD/build/models/tiny.safetensors\" "
        "\"$OLDPWD/tests/data/images/good/cat_420.jpg\" | grep -q '^64 numbers'",
        root);
    run("cd %s && ./pkg-static \"$OLDPWD/build/models/tiny.safetensors\" "
        "\"$OLDPWD/tests/data/images/good/cat_420.jpg\" | grep -q '^64 numbers'",
        root);
}

static void uninstall_leaves_no_file(void **state)
{
    (void)state;
    if (is_instrumented())
        skip();
    run("make -s --no-print-directory uninstall DESTDIR=\"$PWD/%s\" PREFIX=/opt/flat > /dev/null",
        root);
    run("test -z \"$(find %s/opt ! -type d)\"", root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(installs_every_file_and_nothing_of_the_build_folder),
        cmocka_unit_test(example_runs_against_the_static_library),
        cmocka_unit_test(example_runs_against_the_shared_library),
        cmocka_unit_test(pkg_config_finds_both),
        cmocka_unit_test(uninstall_leaves_no_file),
    };
    if (is_instrumented())
        printf("note: only the release build is installed\n");
    return cmocka_run_group_tests(tests, install_into_a_folder, remove_folder);
}
