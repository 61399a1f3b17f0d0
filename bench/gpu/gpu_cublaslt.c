#define _GNU_SOURCE
#include "bench/gpu/gpu_cublaslt.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

enum { WORKSPACE = 32 << 20 };

#define FUNCTIONS(DO)                                                                              \
    DO(cublasLtCreate) DO(cublasLtDestroy) DO(cublasLtMatmulDescCreate)                            \
    DO(cublasLtMatmulDescDestroy) DO(cublasLtMatmulDescSetAttribute) DO(cublasLtMatrixLayoutCreate)\
    DO(cublasLtMatrixLayoutDestroy) DO(cublasLtMatmulPreferenceCreate)                             \
    DO(cublasLtMatmulPreferenceDestroy) DO(cublasLtMatmulPreferenceSetAttribute)                   \
    DO(cublasLtMatmulAlgoGetHeuristic) DO(cublasLtMatmul) DO(cublasLtGetVersion)

static struct {
    void *library;
#define MEMBER(name) __typeof__(&name) name##_;
    FUNCTIONS(MEMBER)
} lt;

static int load(void)
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12",
                                         "libcublasLt.so" };
    for (int i = 0; !lt.library && i < 3; i++)
        lt.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lt.library)
        return 0;
    int good = 1;
#define FIND(name) good &= (*(void **)&lt.name##_ = dlsym(lt.library, #name)) != NULL;
    FUNCTIONS(FIND)
    return good;
}

const char *gpu_cublaslt_words(void)
{
    static char words[40];
    if (!load())
        return "not found by the loader";
    const size_t version = lt.cublasLtGetVersion_();
    snprintf(words, sizeof words, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    return words;
}

struct gpu_cublaslt_product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t weight, x, out;
    cublasLtMatmulHeuristicResult_t chosen;
    char *memory; /* weight, x, out, workspace */
    char *parts[4];
};

/* Column by column, as cuBLAS has it: out [columns, rows] = weight [k, columns]^T x [k, rows]. */
static int describe(gpu_cublaslt_product *p, fc_number number, int rows, int columns, int k)
{
    const cudaDataType_t type = number == FC_NUMBER_F16 ? CUDA_R_16F : CUDA_R_16BF;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const size_t workspace = WORKSPACE;
    cublasLtMatmulPreference_t preference = NULL;
    int found = 0;
    const int good =
        !lt.cublasLtCreate_(&p->handle) &&
        !lt.cublasLtMatmulDescCreate_(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
        !lt.cublasLtMatmulDescSetAttribute_(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof transposed) &&
        !lt.cublasLtMatrixLayoutCreate_(&p->weight, type, (uint64_t)k, (uint64_t)columns, k) &&
        !lt.cublasLtMatrixLayoutCreate_(&p->x, type, (uint64_t)k, (uint64_t)rows, k) &&
        !lt.cublasLtMatrixLayoutCreate_(&p->out, type, (uint64_t)columns, (uint64_t)rows,
                                        columns) &&
        !lt.cublasLtMatmulPreferenceCreate_(&preference) &&
        !lt.cublasLtMatmulPreferenceSetAttribute_(preference,
                                                  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &workspace, sizeof workspace) &&
        !lt.cublasLtMatmulAlgoGetHeuristic_(p->handle, p->operation, p->weight, p->x, p->out,
                                            p->out, preference, 1, &p->chosen, &found);
    if (preference)
        lt.cublasLtMatmulPreferenceDestroy_(preference);
    return good && found == 1;
}

gpu_cublaslt_product *gpu_cublaslt_open(gpu_run *run, const char *what, fc_number number, int rows,
                                        int columns, int k)
{
    const size_t bytes[] = { 2 * (size_t)columns * (size_t)k, 2 * (size_t)rows * (size_t)k,
                             2 * (size_t)rows * (size_t)columns, WORKSPACE };
    size_t sum = 0;
    if (run->rehearse) {
        gpu_said(&run->report, GPU_SKIPPED, what, "it knows nothing of an emulator");
        return NULL;
    }
    if (!load()) {
        gpu_said(&run->report, GPU_SKIPPED, what, "no cuBLASLt that the loader finds");
        return NULL;
    }
    gpu_cublaslt_product *p = calloc(1, sizeof *p);
    for (int i = 0; i < 4; i++)
        sum += (bytes[i] + 255) / 256 * 256;
    if (!p || !(p->memory = gpu_zeros(run, sum))) {
        free(p);
        return NULL;
    }
    p->parts[0] = p->memory;
    for (int i = 1; i < 4; i++)
        p->parts[i] = p->parts[i - 1] + (bytes[i - 1] + 255) / 256 * 256;
    if (!describe(p, number, rows, columns, k)) {
        gpu_said(&run->report, GPU_SKIPPED, what, "cuBLASLt has no algorithm for this product");
        gpu_cublaslt_close(p);
        return NULL;
    }
    return p;
}

void gpu_cublaslt_run(void *product)
{
    const gpu_cublaslt_product *p = product;
    const float one = 1, zero = 0;
    (void)lt.cublasLtMatmul_(p->handle, p->operation, &one, p->parts[0], p->weight, p->parts[1],
                             p->x, &zero, p->parts[2], p->out, p->parts[2], p->out,
                             &p->chosen.algo, p->parts[3], WORKSPACE, gpu_stream);
}

void gpu_cublaslt_close(gpu_cublaslt_product *p)
{
    if (!p)
        return;
    if (p->out)
        lt.cublasLtMatrixLayoutDestroy_(p->out);
    if (p->x)
        lt.cublasLtMatrixLayoutDestroy_(p->x);
    if (p->weight)
        lt.cublasLtMatrixLayoutDestroy_(p->weight);
    if (p->operation)
        lt.cublasLtMatmulDescDestroy_(p->operation);
    if (p->handle)
        lt.cublasLtDestroy_(p->handle);
    (void)cudaFree(p->memory);
    free(p);
}

#else /* built without its header */

const char *gpu_cublaslt_words(void)
{
    return "built without cublasLt.h";
}

gpu_cublaslt_product *gpu_cublaslt_open(gpu_run *run, const char *what, fc_number number, int rows,
                                        int columns, int k)
{
    (void)number, (void)rows, (void)columns, (void)k;
    gpu_said(&run->report, GPU_SKIPPED, what, gpu_cublaslt_words());
    return NULL;
}

void gpu_cublaslt_run(void *product)
{
    (void)product;
}

void gpu_cublaslt_close(gpu_cublaslt_product *product)
{
    (void)product;
}

#endif
