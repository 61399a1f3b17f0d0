#define _GNU_SOURCE
#include "bench/gpu/gpu_library.h"

#include <cuda_runtime_api.h>
#include <math.h>

#include "bench/gpu/gpu_clock.h"
#include "engine/cuda/cuda_cublaslt.h"

const char *gpu_library_words(void)
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
} library_product;

static void run_product(void *context)
{
    const library_product *p = context;
    fc_cublaslt_gemm(p->session, p->gemm);
}

static int open_product(library_product *p, gpu_run *run, flatclip_error *err)
{
    if (fc_cublaslt_load(&p->provider, err) != FLATCLIP_OK)
        return 0;
    p->workspace = gpu_zeros(run, FC_CUBLASLT_WORKSPACE);
    return p->workspace &&
           fc_cublaslt_open(p->provider, gpu_stream, p->workspace, &p->session, err) == FLATCLIP_OK;
}

double gpu_library_time(gpu_run *run, const char *what, const fc_gemm *gemm, double seconds)
{
    library_product p = { .gemm = gemm };
    flatclip_error err = { FLATCLIP_OK, "no memory for its workspace" };
    double taken = (double)NAN;
    if (run->rehearse) {
        gpu_said(&run->report, GPU_SKIPPED, what, "it knows nothing of an emulator");
        return taken;
    }
    if (open_product(&p, run, &err))
        taken = gpu_time_recorded(run, run_product, &p, seconds);
    if (!p.session || fc_cublaslt_check(p.session, &err) != FLATCLIP_OK) {
        gpu_said(&run->report, GPU_SKIPPED, what, err.message);
        taken = (double)NAN;
    }
    fc_cublaslt_close(p.session);
    (void)cudaFree(p.workspace);
    fc_cublaslt_unload(p.provider);
    return taken;
}
