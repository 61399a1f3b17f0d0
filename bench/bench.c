/* flatclip-bench: how fast this build is on this machine: encode calls, their stages, pictures to
 * pixels, files to embeddings. What it does is in bench/speed/. Exit: 0 done, 1 a picture or the
 * gate failed, 2 wrong usage, 3 model, device or precision unusable. */
#define _GNU_SOURCE
#include <math.h>

#include "bench/measure.h"
#include "bench/speed/speed_device.h"
#include "bench/speed/speed_gate.h"
#include "bench/speed/speed_pictures.h"
#include "bench/speed/speed_profile.h"
#include "engine/base/cpu_count.h"
#include "engine/model.h"

/* Where the words go that are no results: kept out of the object. */
static void say_where(speed_run *run)
{
    speed_report_note(run->report, "%sflatclip-bench: %s, %s, %d thread%s",
                      run->report->rows ? "\n" : "", run->info.backend, run->precision,
                      run->threads, run->threads == 1 ? "" : "s");
    const double flops = speed_ceiling_flops(&run->ceiling);
    if (isnan(flops))
        speed_report_note(run->report, "\n");
    else
        speed_report_note(run->report, "; ceiling %.1f GFLOP/s, memory %.1f GB/s\n", flops / 1e9,
                          run->ceiling.stream / 1e9);
    if (isnan(flops))
        speed_report_lack("the ceiling", run->ceiling.why);
}

static flatclip_status measure_batch(speed_run *run, flatclip_error *err)
{
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = run->batch;
    options.threads = run->threads;
    flatclip_status status = flatclip_session_create(run->model, &options, &run->session, err);
    if (status == FLATCLIP_OK)
        status = run->options->mode == SPEED_PROFILE      ? speed_profile(run, err)
                 : run->options->mode == SPEED_END_TO_END ? speed_end_to_end(run, err)
                                                          : speed_encode(run, err);
    flatclip_session_free(run->session);
    run->session = NULL;
    return status;
}

/* All batch sizes with one number of threads, beside a ceiling for as many. */
static flatclip_status measure_threads(speed_run *run, long threads, flatclip_error *err)
{
    fc_isa isa = FC_ISA_PORTABLE;
    flatclip_status status = FLATCLIP_OK;
    run->threads = threads ? (int)threads : fc_cpu_count();
    if (run->info.device == FLATCLIP_DEVICE_CPU) {
        status = fc_isa_choose(&isa, err);
        if (status == FLATCLIP_OK)
            status = speed_ceiling_open(&run->ceiling, isa, run->threads, err);
    }
    if (status == FLATCLIP_OK)
        say_where(run);
    for (int i = 0; status == FLATCLIP_OK && i < run->options->batches.count; i++) {
        run->batch = (int)run->options->batches.values[i];
        status = measure_batch(run, err);
    }
    speed_ceiling_close(&run->ceiling);
    return status;
}

/* A model with the matrix products that FLATCLIP_GEMM asks for. A GPU's ceiling is measured with
 * the first one of a run. */
static flatclip_status measure_model(speed_run *run, long device, long precision,
                                     flatclip_error *err)
{
    flatclip_model_options options = FLATCLIP_MODEL_OPTIONS_INIT;
    options.device = (flatclip_device)device;
    options.precision = (flatclip_precision)precision;
    flatclip_status status = flatclip_model_load(run->options->model, &options, &run->model, err);
    if (status == FLATCLIP_OK) {
        flatclip_model_describe(run->model, &run->info);
        run->device = run->info.device == FLATCLIP_DEVICE_CUDA ? "cuda" : "cpu";
        run->precision = fc_precision_name(run->info.precision);
        if (run->info.device == FLATCLIP_DEVICE_CUDA && run->ceiling.stream == 0)
            speed_device_ceiling(run->info.precision, &run->ceiling);
    }
    for (int i = 0; status == FLATCLIP_OK && i < run->options->threads.count; i++)
        status = measure_threads(run, run->options->threads.values[i], err);
    flatclip_model_free(run->model);
    run->model = NULL;
    return status;
}

/* One device and precision. Where FLATCLIP_GEMM asks for nothing, a GPU's run has a second part:
 * the same on cuBLASLt's products. */
static flatclip_status measure_products(const speed_options *o, speed_report *report, long device,
                                        long precision, flatclip_error *err)
{
    speed_run run = { .options = o, .report = report, .info = FLATCLIP_MODEL_INFO_INIT };
    FC_TRY(measure_model(&run, device, precision, err));
    if (run.info.device != FLATCLIP_DEVICE_CUDA || o->mode == SPEED_END_TO_END ||
        getenv("FLATCLIP_GEMM"))
        return FLATCLIP_OK;
    setenv("FLATCLIP_GEMM", "cublaslt", 1);
    if (measure_model(&run, FLATCLIP_DEVICE_CUDA, precision, err) != FLATCLIP_OK)
        speed_report_lack("the same with cuBLASLt", err->message);
    unsetenv("FLATCLIP_GEMM");
    return FLATCLIP_OK;
}

static flatclip_status measure_all(const speed_options *o, speed_report *report,
                                   flatclip_error *err)
{
    flatclip_status status = FLATCLIP_OK;
    for (int d = 0; status == FLATCLIP_OK && d < o->devices.count; d++)
        for (int p = 0; status == FLATCLIP_OK && p < o->precisions.count; p++)
            status = measure_products(o, report, o->devices.values[d],
                                      o->precisions.values[p], err);
    return status;
}

/* Returns the exit code. */
static int run_mode(const speed_options *o, speed_report *report, flatclip_error *err)
{
    if (o->mode == SPEED_GATE) {
        const int good = speed_gate(report, err);
        return good < 0 ? 3 : !good;
    }
    if (o->mode == SPEED_PREPROCESS) {
        const int failed = speed_pictures(o, report, err);
        return failed < 0 ? 3 : failed > 0;
    }
    const flatclip_status status = measure_all(o, report, err);
    const int is_picture = status == FLATCLIP_ERR_IO ||
                           (status >= FLATCLIP_ERR_IMAGE_EMPTY && status < FLATCLIP_ERR_MEMORY);
    return status == FLATCLIP_OK ? 0 : is_picture && report->rows > 0 ? 1 : 3;
}

int main(int argc, char **argv)
{
    speed_options options;
    speed_report report;
    flatclip_error err = { FLATCLIP_OK, "" };
    if (asks_for_help(argc, argv))
        return speed_usage(stdout, 0);
    if (!speed_read_options(argc, argv, &options))
        return speed_usage(stderr, 2);
    if (!speed_report_begin(&report, &options))
        return 3;
    const int code = run_mode(&options, &report, &err);
    if (err.message[0] && code)
        fprintf(stderr, "flatclip-bench: %s\n", err.message);
    return speed_report_end(&report) ? code : 3;
}
