#include "engine/cuda/cuda_cublaslt.h"

#include <stdlib.h>
#include <string.h>

#if __has_include(<cublasLt.h>)

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>

/* -- The library ------------------------------------------------------------------------------ */

#define FUNCTIONS(DO)                                                                              \
    DO(cublasLtGetVersion) DO(cublasLtCreate) DO(cublasLtDestroy)                                  \
    DO(cublasLtMatmulDescCreate) DO(cublasLtMatmulDescDestroy) DO(cublasLtMatmulDescSetAttribute)  \
    DO(cublasLtMatrixLayoutCreate) DO(cublasLtMatrixLayoutDestroy)                                 \
    DO(cublasLtMatmulPreferenceCreate) DO(cublasLtMatmulPreferenceDestroy)                         \
    DO(cublasLtMatmulPreferenceSetAttribute) DO(cublasLtMatmulAlgoGetHeuristic) DO(cublasLtMatmul)

struct fc_cublaslt {
    void *library;
    char name[32];
#define MEMBER(function) __typeof__(&function) function##_;
    FUNCTIONS(MEMBER)
};

/* The name of the first function that is missing, or NULL. */
static const char *find_functions(fc_cublaslt *lt)
{
#define FIND(function)                                                                             \
    *(void **)&lt->function##_ = dlsym(lt->library, #function);                                    \
    if (!lt->function##_)                                                                          \
        return #function;
    FUNCTIONS(FIND)
    return NULL;
}

static flatclip_status load_library(fc_cublaslt *lt, flatclip_error *err)
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };
    const char *path = getenv("FLATCLIP_CUBLASLT");
    if (path && *path)
        lt->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !(path && *path) && !lt->library && i < sizeof names / sizeof *names; i++)
        lt->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lt->library)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "FLATCLIP_GEMM=cublaslt: %.150s; install "
                       "CUDA's cuBLAS, name the file in FLATCLIP_CUBLASLT, or use "
                       "FLATCLIP_GEMM=own", dlerror());
    const char *missing = find_functions(lt);
    if (missing)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "FLATCLIP_GEMM=cublaslt: the library has no "
                       "%s; use another one, or FLATCLIP_GEMM=own", missing);
    const size_t version = lt->cublasLtGetVersion_();
    snprintf(lt->name, sizeof lt->name, "cuBLASLt %zu.%zu", version / 10000, version / 100 % 100);
    return FLATCLIP_OK;
}

void fc_cublaslt_unload(fc_cublaslt *library)
{
    if (!library)
        return;
    if (library->library)
        dlclose(library->library);
    free(library);
}

const char *fc_cublaslt_name(const fc_cublaslt *library)
{
    return library->name;
}

flatclip_status fc_cublaslt_load(fc_cublaslt **library, flatclip_error *err)
{
    fc_cublaslt *lt = calloc(1, sizeof *lt);
    *library = NULL;
    if (!lt)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the functions of cuBLASLt");
    const flatclip_status status = load_library(lt, err);
    if (status == FLATCLIP_OK)
        *library = lt;
    else
        fc_cublaslt_unload(lt);
    return status;
}

/* -- Products --------------------------------------------------------------------------------- */

struct fc_cublaslt_session {
    const fc_cublaslt *lt;
    cublasLtHandle_t handle;
    fc_cuda_stream stream;
    void *workspace;
    cublasStatus_t status;  /* the first that was not success */
};

flatclip_status fc_cublaslt_open(const fc_cublaslt *library, fc_cuda_stream stream, void *workspace,
                                 fc_cublaslt_session **session, flatclip_error *err)
{
    fc_cublaslt_session *s = calloc(1, sizeof *s);
    *session = NULL;
    if (!s)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a session of cuBLASLt");
    s->lt = library;
    s->stream = stream;
    s->workspace = workspace;
    s->status = library->cublasLtCreate_(&s->handle);
    const flatclip_status status = fc_cublaslt_check(s, err);
    if (status == FLATCLIP_OK)
        *session = s;
    else
        free(s);
    return status;
}

void fc_cublaslt_close(fc_cublaslt_session *session)
{
    if (!session)
        return;
    (void)session->lt->cublasLtDestroy_(session->handle);
    free(session);
}

flatclip_status fc_cublaslt_check(const fc_cublaslt_session *session, flatclip_error *err)
{
    if (!session || session->status == CUBLAS_STATUS_SUCCESS)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_DEVICE, "%s: error %d of cublasStatus_t; use "
                   "FLATCLIP_GEMM=own", session->lt->name, (int)session->status);
}

/* What describes one product to it. Column by column, as it has matrices, ours are
 * out [columns, rows] = weight [k, columns]^T x [k, rows]. */
typedef struct {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t weight, x, out;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t chosen;
} description;

/* Ends the function with the status of a call that was not a success. */
#define LT_TRY(call)                                                                               \
    do {                                                                                           \
        const cublasStatus_t status_ = (call);                                                     \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                      \
            return status_;                                                                        \
    } while (0)

static cublasStatus_t describe_operation(const fc_cublaslt *lt, const fc_gemm *g, description *d)
{
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cudaDataType_t type = CUDA_R_32F;
    LT_TRY(lt->cublasLtMatmulDescCreate_(&d->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute_(d->operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                               &transposed, sizeof transposed));
    if (g->epilogue != FC_GEMM_BIAS_RESIDUAL || !g->bias)
        return CUBLAS_STATUS_SUCCESS;
    /* Onto the residual stream, the bias can be its own epilogue's: both are float32. */
    LT_TRY(lt->cublasLtMatmulDescSetAttribute_(d->operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                               &epilogue, sizeof epilogue));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute_(d->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                               &type, sizeof type));
    return lt->cublasLtMatmulDescSetAttribute_(d->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                               &g->bias, sizeof g->bias);
}

static cublasStatus_t describe_matrices(const fc_cublaslt *lt, const fc_gemm *g, description *d)
{
    const cudaDataType_t in = g->number == FC_NUMBER_F16 ? CUDA_R_16F : CUDA_R_16BF;
    const cudaDataType_t out = g->epilogue == FC_GEMM_BIAS_RESIDUAL ? CUDA_R_32F : in;
    const uint64_t rows = (uint64_t)g->rows, columns = (uint64_t)g->columns, k = (uint64_t)g->k;
    LT_TRY(lt->cublasLtMatrixLayoutCreate_(&d->weight, in, k, columns, g->k));
    LT_TRY(lt->cublasLtMatrixLayoutCreate_(&d->x, in, k, rows, (int64_t)g->x_stride));
    return lt->cublasLtMatrixLayoutCreate_(&d->out, out, columns, rows, (int64_t)g->out_stride);
}

/* The first of its heuristics that makes do with the workspace, and adds up in float32. */
static cublasStatus_t choose(const fc_cublaslt_session *s, description *d)
{
    const fc_cublaslt *lt = s->lt;
    const uint64_t workspace = FC_CUBLASLT_WORKSPACE;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* parts of K in float32 */
    int found = 0;
    LT_TRY(lt->cublasLtMatmulPreferenceCreate_(&d->preference));
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute_(
        d->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute_(
        d->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction));
    LT_TRY(lt->cublasLtMatmulAlgoGetHeuristic_(s->handle, d->operation, d->weight, d->x, d->out,
                                               d->out, d->preference, 1, &d->chosen, &found));
    return found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

static void forget(const fc_cublaslt *lt, description *d)
{
    if (d->preference)
        (void)lt->cublasLtMatmulPreferenceDestroy_(d->preference);
    if (d->out)
        (void)lt->cublasLtMatrixLayoutDestroy_(d->out);
    if (d->x)
        (void)lt->cublasLtMatrixLayoutDestroy_(d->x);
    if (d->weight)
        (void)lt->cublasLtMatrixLayoutDestroy_(d->weight);
    if (d->operation)
        (void)lt->cublasLtMatmulDescDestroy_(d->operation);
}

static cublasStatus_t multiply(fc_cublaslt_session *s, const fc_gemm *g, description *d)
{
    const float one = 1, onto = g->epilogue == FC_GEMM_BIAS_RESIDUAL ? 1 : 0;
    LT_TRY(describe_operation(s->lt, g, d));
    LT_TRY(describe_matrices(s->lt, g, d));
    LT_TRY(choose(s, d));
    return s->lt->cublasLtMatmul_(s->handle, d->operation, &one, g->weight, d->weight, g->x, d->x,
                                  &onto, g->out, d->out, g->out, d->out, &d->chosen.algo,
                                  s->workspace, FC_CUBLASLT_WORKSPACE, s->stream);
}

void fc_cublaslt_gemm(fc_cublaslt_session *session, const fc_gemm *gemm)
{
    description d = { .operation = NULL };
    const cublasStatus_t status = multiply(session, gemm, &d);
    forget(session->lt, &d);
    if (session->status == CUBLAS_STATUS_SUCCESS)
        session->status = status;
    if (status == CUBLAS_STATUS_SUCCESS && (gemm->bias || gemm->epilogue != FC_GEMM_BIAS))
        fc_launch_finish(session->stream, gemm);
}

#else /* built without its header: what would be loaded is not known */

flatclip_status fc_cublaslt_load(fc_cublaslt **library, flatclip_error *err)
{
    *library = NULL;
    return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "FLATCLIP_GEMM=cublaslt: this build knows "
                   "nothing of cuBLASLt; build where cublasLt.h is installed, or use "
                   "FLATCLIP_GEMM=own");
}

void fc_cublaslt_unload(fc_cublaslt *library)
{
    (void)library;
}

const char *fc_cublaslt_name(const fc_cublaslt *library)
{
    (void)library;
    return "";
}

flatclip_status fc_cublaslt_open(const fc_cublaslt *library, fc_cuda_stream stream, void *workspace,
                                 fc_cublaslt_session **session, flatclip_error *err)
{
    (void)library, (void)stream, (void)workspace;
    *session = NULL;
    return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "this build knows nothing of cuBLASLt");
}

void fc_cublaslt_close(fc_cublaslt_session *session)
{
    (void)session;
}

void fc_cublaslt_gemm(fc_cublaslt_session *session, const fc_gemm *gemm)
{
    (void)session, (void)gemm;
}

flatclip_status fc_cublaslt_check(const fc_cublaslt_session *session, flatclip_error *err)
{
    (void)session, (void)err;
    return FLATCLIP_OK;
}

#endif

flatclip_status fc_cublaslt_wanted(fc_number number, int *wanted, flatclip_error *err)
{
    const char *word = getenv("FLATCLIP_GEMM");
    *wanted = 0;
    if (!word || !*word || strcmp(word, "own") == 0)
        return FLATCLIP_OK;
    if (strcmp(word, "cublaslt") != 0)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "FLATCLIP_GEMM is '%.40s', expected own or "
                       "cublaslt", word);
    if (number == FC_NUMBER_F32)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "FLATCLIP_GEMM=cublaslt multiplies f16 and "
                       "bf16; use one of these precisions, or FLATCLIP_GEMM=own");
    *wanted = 1;
    return FLATCLIP_OK;
}
