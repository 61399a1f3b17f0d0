/* Runs every test of the kernels in the emulator: under each order of threads, and each way in
 * which tensor cores round. A test passes if it passes under all of them, or under the one that it
 * names.
 *
 *     run_kernels [NAME...]      only tests whose name contains one of these */
#include "tests/simt/kernel_tests.h"

#include "tests/simt/simt_models.h"

/* Launches run at once. */
void simt::queue_launch(CUstream_st *, const char *name, dim3 grid, dim3 block, size_t shared_bytes,
                        void (*body)(void *), const void *arguments, size_t)
{
    if (!simt::launch(name, grid, block, shared_bytes, body, (void *)arguments))
        fail("%s", simt::finding());
}

/* Matrices lie in shared memory so that the eight rows of one are in eight groups of banks. */
static void check_banks(const simt::Counts &before)
{
    const uint64_t loads = simt::counts.matrix_loads - before.matrix_loads;
    const uint64_t waves = simt::counts.matrix_waves - before.matrix_waves;
    if (waves != 4 * loads)
        fail("loads of matrices meet in a bank: expected 1 wave each, not %.4f",
             (double)waves / (4 * (double)loads));
}

/* Runs one test under all settings; prints the first failure. */
static bool run(const Test &test)
{
    static const char *const schedules[] = { "forward", "reverse", "random" };
    static const char *const roundings[] = { "exact", "groups of 8", "groups of 16" };
    for (int i = 0; i < 3; i++) {
        if (test.only >= 0 && test.only != i)
            continue;
        simt::settings.schedule = (simt::Schedule)i;
        simt::settings.rounding = (simt::Rounding)i; /* each order, each rounding */
        const simt::Counts before = simt::counts;
        run_once(test);
        check_banks(before);
        if (!outcome.good) {
            printf("[  FAILED  ] %s (threads %s, sums %s): %s\n", test.name, schedules[i],
                   roundings[i], outcome.why);
            return false;
        }
    }
    printf("[       OK ] %s\n", test.name);
    return true;
}

int main(int argc, char **argv)
{
    const int failed = run_tests({ row_tests, gemm_tests, attention_tests, end_tests, layer_tests,
                                   tower_tests }, run, argc, argv);
    printf("note: %.3g loads of matrices, %.4f waves each; %.3g products, %.3g accesses\n",
           (double)simt::counts.matrix_loads,
           simt::counts.matrix_loads ? (double)simt::counts.matrix_waves /
                                           (4 * (double)simt::counts.matrix_loads) : 0,
           (double)simt::counts.multiplies, (double)(simt::counts.loads + simt::counts.stores));
    return failed;
}
