/* Runs the tests of the kernels (tests/simt/test_*.cpp) on a GPU: the same tests, but memory is the
 * device's, and launches are real ones.
 *
 *     run_on_device [NAME...]      only tests whose name contains one of these
 *
 * The whole tiny model is flatclip-gpu-check's, which needs no files.
 *
 * Around every block lie guard bytes that nothing may change, and what was made read-only is
 * compared when it is released. The emulator's other checks are compute-sanitizer's here. */
#include "tests/simt/kernel_tests.h"

#include <cuda_runtime_api.h>
#include <map>
#include <stdlib.h>

/* -- Device memory ---------------------------------------------------------------------------- */

enum { GUARD = 4096, GUARD_BYTE = 0xa5 };

struct Block {
    size_t bytes;
    const char *name;
    std::vector<char> read_only;
};
static std::map<void *, Block> blocks;

/* The device is lost after most errors: going on would only repeat them. */
static void must(cudaError_t code, const char *call)
{
    if (code == cudaSuccess)
        return;
    printf("[  FAILED  ] %s: %s\n[  FAILED  ] 1 test(s)\n", call, cudaGetErrorString(code));
    exit(1);
}

static std::vector<char> read_device(const void *from, size_t bytes)
{
    std::vector<char> host(bytes);
    must(cudaMemcpy(host.data(), from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
}

static void check_guard(const void *guard, const char *name, const char *side)
{
    for (char byte : read_device(guard, GUARD))
        if ((unsigned char)byte != GUARD_BYTE)
            return fail("bytes %s %s were written", side, name);
}

void *simt::allocate(size_t bytes, const char *name)
{
    char *memory;
    must(cudaMalloc((void **)&memory, bytes + 2 * GUARD), "cudaMalloc");
    must(cudaMemset(memory, GUARD_BYTE, GUARD), "cudaMemset");
    must(cudaMemset(memory + GUARD, 0xff, bytes), "cudaMemset"); /* NaN, where nobody writes */
    must(cudaMemset(memory + GUARD + bytes, GUARD_BYTE, GUARD), "cudaMemset");
    blocks[memory + GUARD] = { bytes, name, {} };
    return memory + GUARD;
}

void simt::release(void *block)
{
    const Block &b = blocks[block];
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check_guard((char *)block - GUARD, b.name, "before");
    check_guard((char *)block + b.bytes, b.name, "behind");
    if (!b.read_only.empty() && read_device(block, b.bytes) != b.read_only)
        fail("%s, which is only read, was written", b.name);
    must(cudaFree((char *)block - GUARD), "cudaFree");
    blocks.erase(block);
}

void simt::upload(void *to, const void *from, size_t bytes)
{
    must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void simt::download(void *to, const void *from, size_t bytes)
{
    must(cudaGetLastError(), "a launch");
    must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void simt::make_read_only(void *block)
{
    blocks[block].read_only = read_device(block, blocks[block].bytes);
}

/* -- Running ---------------------------------------------------------------------------------- */

static bool run(const Test &test)
{
    run_once(test);
    must(cudaDeviceSynchronize(), test.name);
    must(cudaGetLastError(), test.name);
    if (outcome.good)
        printf("[       OK ] %s\n", test.name);
    else
        printf("[  FAILED  ] %s: %s\n", test.name, outcome.why);
    fflush(stdout);
    return outcome.good;
}

int main(int argc, char **argv)
{
    return run_tests({ row_tests, gemm_tests, attention_tests, end_tests, layer_tests }, run, argc,
                     argv);
}
