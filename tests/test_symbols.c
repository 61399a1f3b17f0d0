/* What the built libraries show and use: only our names outside, nothing that prints or exits, no
 * writable data. Asks nm about the libraries that `make` built. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef void symbol_fn(char kind, const char *name, const char *object, int *problems);

/* Calls see for every symbol that nm lists; returns how many there were. Sanitizers and debuggers
 * add symbols of their own, so such builds are not asked. */
static int each_symbol(const char *nm_options, const char *library, symbol_fn *see, int *problems)
{
    const char *folder = getenv("BIN");
    char command[512], line[1024];
    int count = 0;
    snprintf(command, sizeof command, "nm %s %s/%s", nm_options, folder ? folder : "build",
             library);
    FILE *nm = popen(command, "r");
    assert_non_null(nm);
    while (fgets(line, sizeof line, nm)) {
        char object[512] = "", name[512], kind;
        /* POSIX format with the file's name: "archive[object]: name kind value size" */
        const char *rest = strchr(line, ' ');
        if (rest && sscanf(line, "%511[^ ]", object) == 1 &&
            sscanf(rest, " %511s %c", name, &kind) == 2) {
            see(kind, name, object, problems);
            count++;
        }
    }
    assert_int_equal(pclose(nm), 0);
    return count;
}

static int is_instrumented(void)
{
    const char *folder = getenv("BIN");
    return folder &&
           (strstr(folder, "sanitize") || strstr(folder, "tsan") || strstr(folder, "fuzz"));
}

static int starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static void report(const char *what, const char *name, const char *object, int *problems)
{
    print_error("%s: %s in %s\n", what, name, object);
    ++*problems;
}

static void see_exported(char kind, const char *name, const char *object, int *problems)
{
    (void)kind;
    if (!starts_with(name, "flatclip_"))
        report("exported, but not ours", name, object, problems);
}

static void shared_library_exports_only_flatclip_names(void **state)
{
    (void)state;
    int problems = 0;
    if (is_instrumented())
        skip();
    const int count =
        each_symbol("-P -A -D --defined-only", "libflatclip.so", see_exported, &problems);
    assert_true(count >= 15);
    assert_int_equal(problems, 0);
}

static void see_global(char kind, const char *name, const char *object, int *problems)
{
    (void)kind;
    if (!starts_with(name, "flatclip_") && !starts_with(name, "fc_"))
        report("global, but without our prefix", name, object, problems);
}

static void archive_defines_only_flatclip_and_fc_names(void **state)
{
    (void)state;
    int problems = 0;
    if (is_instrumented())
        skip();
    const int count =
        each_symbol("-P -A -g --defined-only", "libflatclip.a", see_global, &problems);
    assert_true(count > 30);
    assert_int_equal(problems, 0);
}

static void see_undefined(char kind, const char *name, const char *object, int *problems)
{
    static const char *const banned[] = {
        "printf",    "fprintf",    "vprintf", "vfprintf",      "puts",          "fputs",
        "putchar",   "fputc",      "perror",  "__printf_chk",  "__fprintf_chk", "__vfprintf_chk",
        "stdout",    "stderr",     "write",   "syslog",        "exit",          "_exit",
        "_Exit",     "quick_exit", "abort",   "__assert_fail", "signal",        "sigaction",
        "setlocale", "srand",      "rand",    "strtok",        "setenv",        "putenv",
        "chdir",     "umask",      "system",  "popen",         "fork",
    };
    (void)kind;
    for (size_t i = 0; i < sizeof banned / sizeof *banned; i++)
        if (strcmp(name, banned[i]) == 0)
            report("a library must not call", name, object, problems);
}

static void library_never_prints_exits_or_changes_the_process(void **state)
{
    (void)state;
    int problems = 0;
    if (is_instrumented())
        skip();
    const int count = each_symbol("-P -A -u", "libflatclip.a", see_undefined, &problems);
    assert_true(count > 30);
    assert_int_equal(problems, 0);
}

/* nvcc registers its kernels through writable data; what we write ourselves has none. */
static int is_kernel(const char *object)
{
    char path[600];
    const char *begin = strchr(object, '[');
    begin = begin ? begin + 1 : object;
    const int length = (int)strcspn(begin, ".]:");
    snprintf(path, sizeof path, "kernels/%.*s.cu", length, begin);
    FILE *source = fopen(path, "r");
    if (source)
        fclose(source);
    return source != NULL;
}

static void see_data(char kind, const char *name, const char *object, int *problems)
{
    /* .data.rel.ro and .data.rel.ro.local are constant after loading, but nm calls them d: tables
     * of pointers to constants. The size of the real sections is checked by the next test. */
    if ((kind == 'B' || kind == 'b' || kind == 'C') && !is_kernel(object))
        report("writable data", name, object, problems);
}

static void archive_has_no_uninitialised_data(void **state)
{
    (void)state;
    int problems = 0;
    if (is_instrumented())
        skip();
    each_symbol("-P -A --defined-only", "libflatclip.a", see_data, &problems);
    assert_int_equal(problems, 0);
}

/* Sections that stay writable: any byte in them is global state. */
static void archive_has_no_writable_sections(void **state)
{
    (void)state;
    const char *folder = getenv("BIN");
    char command[512], line[1024];
    int sections = 0, problems = 0, skipped = 0;
    if (is_instrumented())
        skip();
    snprintf(command, sizeof command, "objdump -h -w %s/libflatclip.a", folder ? folder : "build");
    FILE *objdump = popen(command, "r");
    assert_non_null(objdump);
    while (fgets(line, sizeof line, objdump)) {
        char name[256];
        unsigned long index, bytes;
        if (strstr(line, "file format"))
            skipped = is_kernel(line);
        if (skipped || sscanf(line, "%lu %255s %lx", &index, name, &bytes) != 3)
            continue;
        sections++;
        const int writable = starts_with(name, ".data") || starts_with(name, ".bss") ||
                             starts_with(name, ".tdata") || starts_with(name, ".tbss");
        if (writable && !starts_with(name, ".data.rel.ro") && bytes > 0)
            report("writable section", name, "libflatclip.a", &problems);
    }
    assert_int_equal(pclose(objdump), 0);
    assert_true(sections > 10);
    assert_int_equal(problems, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_library_exports_only_flatclip_names),
        cmocka_unit_test(archive_defines_only_flatclip_and_fc_names),
        cmocka_unit_test(library_never_prints_exits_or_changes_the_process),
        cmocka_unit_test(archive_has_no_uninitialised_data),
        cmocka_unit_test(archive_has_no_writable_sections),
    };
    if (is_instrumented())
        printf(
            "note: instrumented builds carry their tools' symbols; the release build is checked\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
