/* A main for fuzz targets without a fuzzer: runs the target once on every file of the folders (or
 * files) that it is given, so that what fuzzing once found stays found in `make test`. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int files;

/* Runs the target on one file; the copy has exactly its size, so that sanitizers see an overrun. */
static int replay(const char *path, const struct stat *info, int kind, struct FTW *position)
{
    (void)position;
    if (kind != FTW_F)
        return 0;
    const size_t bytes = (size_t)info->st_size;
    uint8_t *data = malloc(bytes ? bytes : 1);
    FILE *file = fopen(path, "rb");
    if (!data || !file || fread(data, 1, bytes, file) != bytes) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    files++;
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (access(argv[i], F_OK) == 0 && nftw(argv[i], replay, 16, FTW_PHYS) != 0)
            return 1;
    if (files == 0) {
        fprintf(stderr, "no corpus found\n");
        return 1;
    }
    printf("replayed %d files\n[  PASSED  ] 1 test(s).\n", files);
    return 0;
}
