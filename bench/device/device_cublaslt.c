#define _GNU_SOURCE
#include "bench/device/device_cublaslt.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>

#include "bench/device/device_memory.h"
#include "engine/cuda/cuda_cublaslt.h"

const char *device_cublaslt_words(void)
{
    static char words[sizeof(((flatclip_error *)0)->message)];
    fc_cublaslt *library;
    flatclip_error err;
    const int good = fc_cublaslt_load(&library, &err) == FLATCLIP_OK;
    snprintf(words, sizeof words, "%s", good ? fc_cublaslt_name(library) : err.message);
    fc_cublaslt_unload(library);
    return words;
}

typedef struct {
    fc_cublaslt *provider;
    fc_cublaslt_session *session;
    char *workspace;
    const fc_gemm *gemm;
} product;

static void run_product(fc_cuda_stream stream, void *context)
{
    const product *p = context;
    (void)stream; /* the session's */
    fc_cublaslt_gemm(p->session, p->gemm);
}

static flatclip_status open_product(product *p, fc_cuda_stream stream, flatclip_error *err)
{
    FC_TRY(fc_cublaslt_load(&p->provider, err));
    p->workspace = device_zeros(stream, FC_CUBLASLT_WORKSPACE, err);
    if (!p->workspace)
        return FLATCLIP_ERR_DEVICE;
    return fc_cublaslt_open(p->provider, stream, p->workspace, &p->session, err);
}

double device_cublaslt_time(const device_clock *clock, const fc_gemm *gemm, double seconds,
                            flatclip_error *err)
{
    product p = { .gemm = gemm };
    double taken = (double)NAN;
    if (open_product(&p, clock->stream, err) == FLATCLIP_OK) {
        taken = device_time_recorded(clock, run_product, &p, seconds, err);
        if (fc_cublaslt_check(p.session, err) != FLATCLIP_OK)
            taken = (double)NAN;
    }
    fc_cublaslt_close(p.session);
    (void)cudaFree(p.workspace);
    fc_cublaslt_unload(p.provider);
    return taken;
}
