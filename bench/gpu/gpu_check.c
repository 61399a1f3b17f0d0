/* One part of make gpu-check: bench/gpu/gpu_check.sh runs them one after the other. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/gpu_parts.h"

static const struct {
    const char *name;
    void (*run)(gpu_run *run);
    int files;
} parts[] = {
    { "device", gpu_device, 0 },         { "golden", gpu_golden, 0 },
    { "bits", gpu_same_bits, 0 },        { "flat", gpu_flat, 0 },
    { "bits-write", gpu_bits_write, 1 }, { "emulator", gpu_bits_compare, 2 },
    { "ceilings", gpu_ceilings, 0 },     { "speed", gpu_speed, 0 },
    { "kernels", gpu_gemm, 0 },          { "once", gpu_once, 0 },
};
enum { PARTS = sizeof parts / sizeof *parts };

static int usage(void)
{
    fputs("usage: flatclip-gpu-check PART [--json FILE] [--rehearse] [FILE...]\n"
          "Appends findings to the JSON file, one object a line. Parts:", stderr);
    for (int i = 0; i < PARTS; i++)
        fprintf(stderr, " %s", parts[i].name);
    fputs("\nExit codes: 0 nothing failed, 1 something did, 2 wrong usage\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    gpu_run run = { .full = "vitb32" };
    int part = 0, files = 0;
    while (argc > 1 && part < PARTS && strcmp(argv[1], parts[part].name))
        part++;
    if (argc < 2 || part == PARTS)
        return usage();
    run.report.part = parts[part].name;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--rehearse") == 0) {
            run.rehearse = run.clock.once = 1;
            run.full = "micro";
        } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            run.report.json = fopen(argv[++i], "a");
            if (!run.report.json) {
                perror(argv[i]);
                return 2;
            }
        } else if (files < parts[part].files) {
            run.file[files++] = argv[i];
        } else {
            return usage();
        }
    }
    if (files < parts[part].files)
        return usage();
    if (gpu_good(&run, cudaStreamCreateWithFlags(&run.clock.stream, cudaStreamDefault),
                 "the first call"))
        parts[part].run(&run);
    if (run.clock.stream)
        (void)cudaStreamDestroy(run.clock.stream);
    if (run.report.json && fclose(run.report.json) != 0)
        return 2;
    return run.report.failed > 0;
}
