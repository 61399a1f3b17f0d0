/* A stand-in for libcublasLt over the stand-in runtime: the functions that engine/cuda/cuda_cublaslt.c
 * calls, with a plain loop for the product. A library of its own, loaded as the real one is.
 *
 * FAKE_CUBLASLT_FAIL_AT: index of the call that fails, counted from the library's loading. What is
 * made and not destroyed is counted in fake_cublaslt_live. */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include "tests/fakecuda/fakecuda.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {
long fake_cublaslt_live, fake_cublaslt_calls, fake_cublaslt_products;
}

typedef struct {
    uint64_t rows, columns;
    int64_t leading;
    cudaDataType_t type;
} fake_layout;

typedef struct {
    int transposed, has_bias;
    const float *bias;
} fake_operation;

static int fails(void)
{
    const char *at = getenv("FAKE_CUBLASLT_FAIL_AT");
    return fake_cublaslt_calls++ == (at ? atol(at) : -1);
}

/* A new object, as a handle of the library's. */
static cublasStatus_t make(void *handle, const void *content, size_t bytes)
{
    if (fails())
        return CUBLAS_STATUS_ALLOC_FAILED;
    void *object = malloc(bytes);
    memcpy(object, content, bytes);
    memcpy(handle, &object, sizeof object);
    fake_cublaslt_live++;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(const void *object)
{
    free((void *)object);
    fake_cublaslt_live--;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT size_t CUBLASWINAPI cublasLtGetVersion(void)
{
    return 130100;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t *handle)
{
    return make(handle, "handle", 7);
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroy(handle);
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                                            cublasComputeType_t compute,
                                                            cudaDataType_t scale)
{
    const fake_operation empty = {};
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return make(operation, &empty, sizeof empty);
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    return destroy(operation);
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, const void *value,
    size_t bytes)
{
    fake_operation *o = (fake_operation *)operation;
    if (fails())
        return CUBLAS_STATUS_INVALID_VALUE;
    if (name == CUBLASLT_MATMUL_DESC_TRANSA)
        o->transposed = *(const cublasOperation_t *)value == CUBLAS_OP_T;
    else if (name == CUBLASLT_MATMUL_DESC_EPILOGUE)
        o->has_bias = *(const cublasLtEpilogue_t *)value == CUBLASLT_EPILOGUE_BIAS;
    else if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
        memcpy(&o->bias, value, bytes);
    else if (name != CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE ||
             *(const cudaDataType_t *)value != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                                              cudaDataType_t type, uint64_t rows,
                                                              uint64_t columns, int64_t leading)
{
    const fake_layout l = { rows, columns, leading, type };
    return make(layout, &l, sizeof l);
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout);
}

EXPORT cublasStatus_t CUBLASWINAPI
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    return make(preference, "preference", 11);
}

EXPORT cublasStatus_t CUBLASWINAPI
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference);
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
    const void *value, size_t bytes)
{
    (void)preference, (void)name, (void)value, (void)bytes;
    return fails() ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t results[],
    int *found)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    memset(results, 0, (size_t)wanted * sizeof *results);
    *found = 1;
    return fails() ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

/* -- The product ------------------------------------------------------------------------------ */

typedef struct {
    fake_layout a, b, d;
    const void *a_data, *b_data;
    void *d_data;
    const float *bias;
    float beta;
} fake_product;

static size_t bytes_of(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static float to_float(cudaDataType_t type, const void *data, size_t i)
{
    switch (type) {
    case CUDA_R_16F: return __half2float(((const __half *)data)[i]);
    case CUDA_R_16BF: return __bfloat162float(((const __nv_bfloat16 *)data)[i]);
    default: return ((const float *)data)[i];
    }
}

static void from_float(cudaDataType_t type, float value, void *data, size_t i)
{
    switch (type) {
    case CUDA_R_16F: ((__half *)data)[i] = __float2half_rn(value); break;
    case CUDA_R_16BF: ((__nv_bfloat16 *)data)[i] = __float2bfloat16_rn(value); break;
    default: ((float *)data)[i] = value;
    }
}

/* A column of a matrix, as floats. */
static std::vector<float> read_column(const fake_layout &l, const void *data, uint64_t column)
{
    const size_t size = bytes_of(l.type);
    std::vector<char> bytes(l.rows * size);
    std::vector<float> floats(l.rows);
    fakecuda_read(bytes.data(), (const char *)data + (size_t)l.leading * column * size,
                  bytes.size());
    for (size_t i = 0; i < floats.size(); i++)
        floats[i] = to_float(l.type, bytes.data(), i);
    return floats;
}

/* d [m, n] = a [k, m]^T b [k, n] + beta d + bias, column by column. */
static void compute(const void *argument)
{
    const fake_product *p = (const fake_product *)argument;
    const size_t k = p->a.rows, m = p->a.columns, n = p->b.columns, size = bytes_of(p->d.type);
    std::vector<std::vector<float>> a(m);
    std::vector<float> bias(m);
    std::vector<char> out(m * size);
    for (size_t i = 0; i < m; i++)
        a[i] = read_column(p->a, p->a_data, i);
    if (p->bias)
        fakecuda_read(bias.data(), p->bias, m * sizeof(float));
    for (size_t j = 0; j < n; j++) {
        const std::vector<float> b = read_column(p->b, p->b_data, j);
        std::vector<float> d(m);
        if (p->beta != 0)
            d = read_column(p->d, p->d_data, j);
        for (size_t i = 0; i < m; i++) {
            float sum = 0;
            for (size_t step = 0; step < k; step++)
                sum += a[i][step] * b[step];
            from_float(p->d.type, sum + bias[i] + p->beta * d[i], out.data(), i);
        }
        fakecuda_write((char *)p->d_data + (size_t)p->d.leading * j * size, out.data(), out.size());
    }
}

EXPORT cublasStatus_t CUBLASWINAPI cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
    cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
    const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
    cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
    size_t workspace_bytes, cudaStream_t stream)
{
    const fake_operation *o = (const fake_operation *)operation;
    const fake_product p = {
        *(const fake_layout *)a_layout, *(const fake_layout *)b_layout,
        *(const fake_layout *)d_layout, a, b, d, o->has_bias ? o->bias : NULL,
        *(const float *)beta,
    };
    (void)handle, (void)algorithm;
    if (fails())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!o->transposed || *(const float *)alpha != 1 || c != d || c_layout != d_layout ||
        !workspace || workspace_bytes == 0 || p.a.rows != p.b.rows || p.d.rows != p.a.columns ||
        p.d.columns != p.b.columns)
        return CUBLAS_STATUS_INVALID_VALUE;
    fake_cublaslt_products++;
    return fakecuda_queue(stream, "cublasLtMatmul", compute, &p, sizeof p)
               ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
