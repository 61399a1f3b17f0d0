/* Whether embeddings are right, the same bits in every batch, and cost no memory. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/gpu_parts.h"
#include "bench/measure.h"
#include "engine/model.h"

static const flatclip_precision precisions[] = { FLATCLIP_PRECISION_F32, FLATCLIP_PRECISION_F16,
                                                 FLATCLIP_PRECISION_BF16 };
enum { PRECISIONS = 3 };

/* -- Against float64 -------------------------------------------------------------------------- */

/* What docs/numerics.md allows: a difference, or for the full model in half precision a cosine. */
static double allowed_gap(flatclip_precision precision, int full)
{
    if (precision == FLATCLIP_PRECISION_F32)
        return 1e-6;
    if (full)
        return precision == FLATCLIP_PRECISION_F16 ? 1 - 0.99999 : 1 - 0.9999;
    return precision == FLATCLIP_PRECISION_F16 ? 1e-3 : 5e-3;
}

static double largest_difference(const float *a, const float *b, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double gap = fabs((double)a[i] - (double)b[i]);
        worst = gap <= worst ? worst : gap; /* NaN counts as worse */
    }
    return worst;
}

/* 1 - cosine of the worst row of unit-length rows. */
static double largest_turn(const float *a, const float *b, size_t rows, size_t dim)
{
    double worst = 0;
    for (size_t r = 0; r < rows; r++) {
        double product = 0, aa = 0, bb = 0;
        for (size_t i = r * dim; i < (r + 1) * dim; i++) {
            product += (double)a[i] * (double)b[i];
            aa += (double)a[i] * (double)a[i];
            bb += (double)b[i] * (double)b[i];
        }
        const double turn = 1 - product / sqrt(aa * bb);
        worst = turn <= worst ? worst : turn;
    }
    return worst;
}

static void check_golden(gpu_run *run, const gpu_goldens *goldens, const char *name,
                         flatclip_precision precision)
{
    char what[64];
    float rows[GPU_GOLDENS * GPU_DIM];
    flatclip_error err;
    const int full = strcmp(name, "tiny") != 0;
    const size_t count = run->rehearse ? 1 : GPU_GOLDENS;
    const float *expected = full ? goldens->vitb32 : goldens->tiny;
    flatclip_model *model = gpu_load(run, name, precision);
    flatclip_session *session = model ? gpu_open(run, model, (int)count) : NULL;
    if (session) {
        const size_t dim = (size_t)flatclip_model_embed_dim(model);
        const double allowed = allowed_gap(precision, full);
        const int by_cosine = full && precision != FLATCLIP_PRECISION_F32;
        snprintf(what, sizeof what, "%s %s", name, fc_precision_name(precision));
        if (flatclip_encode_pixels_u8(session, goldens->pixels, count, rows, NULL, &err) !=
            FLATCLIP_OK) {
            gpu_said(&run->report, GPU_FAIL, what, err.message);
        } else {
            const double gap = by_cosine ? largest_turn(rows, expected, count, dim)
                                         : largest_difference(rows, expected, count * dim);
            char words[48];
            snprintf(words, sizeof words, "of %g", allowed);
            gpu_found(&run->report, gap <= allowed ? GPU_PASS : GPU_FAIL, what, gap,
                      by_cosine ? "1-cosine" : "largest", words);
        }
    }
    flatclip_session_free(session);
    flatclip_model_free(model);
}

static void check_goldens(gpu_run *run, const char *name)
{
    gpu_goldens *goldens = gpu_read_goldens(run);
    for (int p = 0; goldens && p < PRECISIONS; p++)
        check_golden(run, goldens, name, precisions[p]);
    free(goldens);
}

void gpu_golden(gpu_run *run)
{
    check_goldens(run, "tiny");
    if (!run->rehearse)
        check_goldens(run, "vitb32");
}

void gpu_once(gpu_run *run)
{
    check_goldens(run, "tiny");
}

/* -- The same bits ---------------------------------------------------------------------------- */

static int encode_in(gpu_run *run, const flatclip_model *model, int batch,
                     const unsigned char *pixels, size_t count, float *rows)
{
    flatclip_error err;
    flatclip_session *session = gpu_open(run, model, batch);
    if (!session)
        return 0;
    const flatclip_status status =
        flatclip_encode_pixels_u8(session, pixels, count, rows, NULL, &err);
    if (status != FLATCLIP_OK)
        gpu_said(&run->report, GPU_FAIL, "encoding", err.message);
    flatclip_session_free(session);
    return status == FLATCLIP_OK;
}

static void check_bits(gpu_run *run, const char *name, flatclip_precision precision)
{
    static const int batches[] = { 1, 2, 3, 5, 8, 17, 64, 225 };
    const int sizes = run->rehearse ? 3 : 8;
    const size_t count = run->rehearse ? 3 : 230;
    char what[64], words[64];
    flatclip_model *model = gpu_load(run, name, precision);
    if (!model)
        return;
    unsigned char *pixels = gpu_noise(count);
    const size_t bytes = count * (size_t)flatclip_model_embed_dim(model) * sizeof(float);
    float *first = malloc(bytes), *again = malloc(bytes);
    int same = 0, tried = first && again;
    for (int b = 0; tried && b < sizes; b++) {
        tried = encode_in(run, model, batches[b], pixels, count, b ? again : first);
        same += tried && (b == 0 || memcmp(first, again, bytes) == 0);
    }
    snprintf(what, sizeof what, "%s %s, %d batch sizes", name, fc_precision_name(precision),
             sizes);
    snprintf(words, sizeof words, "%zu images, batch 1 to %d", count, batches[sizes - 1]);
    gpu_found(&run->report, same == sizes ? GPU_PASS : GPU_FAIL, what, same, "equal", words);
    free(again);
    free(first);
    free(pixels);
    flatclip_model_free(model);
}

void gpu_same_bits(gpu_run *run)
{
    for (int p = 0; p < PRECISIONS; p++)
        if (!run->rehearse || precisions[p] == FLATCLIP_PRECISION_F16)
            check_bits(run, run->full, precisions[p]);
}

/* -- Flat memory ------------------------------------------------------------------------------ */

typedef struct {
    size_t free_on_device, heap, resident;
} memory_reading;

static memory_reading read_memory(const flatclip_session *session)
{
    size_t all;
    const measurement m = measure(session);
    memory_reading r = { 0, m.heap, m.resident };
    (void)cudaMemGetInfo(&r.free_on_device, &all);
    return r;
}

static void report_growth(gpu_run *run, const char *what, size_t before, size_t after,
                          size_t allowed)
{
    const double growth = (double)after - (double)before;
    gpu_found(&run->report, growth <= (double)allowed ? GPU_PASS : GPU_FAIL, what, growth, "bytes",
              NULL);
}

/* The host's memory is the driver's, too, which may take a little; or the emulator's, which takes
 * what it likes. That the engine takes none is what tests/test_allocations.c counts. */
static void report_host_growth(gpu_run *run, const char *what, size_t before, size_t after,
                               size_t allowed)
{
    if (run->rehearse)
        gpu_found(&run->report, GPU_MEASURED, what, (double)after - (double)before, "bytes",
                  "with the emulator's own");
    else
        report_growth(run, what, before, after, allowed);
}

void gpu_flat(gpu_run *run)
{
    const long warm_up = run->rehearse ? 2 : 200, iterations = run->rehearse ? 20 : 10000;
    enum { MOST = 8, HEAP_SLACK = 4096, RESIDENT_SLACK = 1 << 20 };
    float rows[MOST * 64];
    flatclip_error err;
    memory_reading before = { 0 };
    flatclip_model *model = gpu_load(run, run->rehearse ? "micro" : "tiny", FLATCLIP_PRECISION_F16);
    flatclip_session *session = model ? gpu_open(run, model, run->rehearse ? 2 : MOST) : NULL;
    unsigned char *pixels = gpu_noise(MOST);
    flatclip_status status = session ? FLATCLIP_OK : FLATCLIP_ERR_DEVICE;
    for (long i = -warm_up; status == FLATCLIP_OK && i < iterations; i++) {
        const size_t count = (size_t)(i + warm_up) % (run->rehearse ? 2 : MOST) + 1;
        if (i == 0)
            before = read_memory(session);
        status = flatclip_encode_pixels_u8(session, pixels, count, rows, NULL, &err);
    }
    if (status == FLATCLIP_OK) {
        const memory_reading after = read_memory(session);
        gpu_found(&run->report, GPU_MEASURED, "encodes", (double)iterations, "", NULL);
        report_growth(run, "device memory taken", after.free_on_device, before.free_on_device, 0);
        report_host_growth(run, "heap in use", before.heap, after.heap, HEAP_SLACK);
        report_host_growth(run, "resident memory", before.resident, after.resident, RESIDENT_SLACK);
    } else if (session) {
        gpu_said(&run->report, GPU_FAIL, "encoding", err.message);
    }
    free(pixels);
    flatclip_session_free(session);
    flatclip_model_free(model);
}
