/* The parts of make gpu-check that run in this program; bench/gpu/gpu_check.sh calls them one by
 * one, so that none hides another. */
#ifndef GPU_PARTS_H
#define GPU_PARTS_H

#include "bench/device/device_clock.h"
#include "bench/gpu/gpu_report.h"
#include "flatclip.h"
#include "kernels/launch.h"

typedef struct {
    gpu_report report;
    device_clock clock;     /* its stream: for everything that does not belong to a session */
    int rehearse;           /* nonzero: an emulator computes; sizes are as small as they can be */
    const char *full;       /* the model of speed: vitb32, or micro in a rehearsal */
    const char *file[2];    /* arguments of the parts about bits */
} gpu_run;

void gpu_device(gpu_run *run);      /* which device, which driver */
void gpu_golden(gpu_run *run);      /* embeddings against float64 */
void gpu_same_bits(gpu_run *run);   /* whatever batch and session */
void gpu_flat(gpu_run *run);        /* memory over 10,000 encodes */
void gpu_bits_write(gpu_run *run);  /* kernels' results, to file[0] */
void gpu_bits_compare(gpu_run *run);/* file[0], of the device, with file[1], of the emulator */
void gpu_ceilings(gpu_run *run);    /* what the device can do */
void gpu_speed(gpu_run *run);       /* encode calls by batch and precision */
void gpu_gemm(gpu_run *run);        /* every tile, and cuBLASLt, by shape */
void gpu_once(gpu_run *run);        /* one small batch in each precision, for the sanitizer */

/* -- What they share (gpu_common.c) ----------------------------------------------------------- */

enum { GPU_GOLDENS = 4, GPU_SIDE = 224, GPU_PICTURE = GPU_SIDE * GPU_SIDE * 3, GPU_DIM = 512 };

/* The stored pixels of pictures [GPU_GOLDENS, S, S, 3], and their embeddings by float64. */
typedef struct {
    unsigned char pixels[GPU_GOLDENS * GPU_PICTURE];
    float tiny[GPU_GOLDENS * 64], vitb32[GPU_GOLDENS * GPU_DIM];
} gpu_goldens;

/* NULL, and said, if the file cannot be read; the caller frees it. */
gpu_goldens *gpu_read_goldens(gpu_run *run);

/* A model on the device, or NULL, and said. */
flatclip_model *gpu_load(gpu_run *run, const char *name, flatclip_precision precision);
flatclip_session *gpu_open(gpu_run *run, const flatclip_model *model, int max_batch);

/* Noise [count, S, S, 3], the caller's to free; ends the program without memory. */
unsigned char *gpu_noise(size_t count);

/* Zeros on the device, or NULL, and said; cudaFree gives them back. */
char *gpu_zeros(gpu_run *run, size_t bytes);

/* Seconds that work takes (device_clock.h), or NAN, and said. */
double gpu_time(gpu_run *run, device_work *work, void *context, double seconds);

/* Seconds of a product by cuBLASLt; or NAN, and said that it was skipped, and why. */
double gpu_library_time(gpu_run *run, const char *what, const fc_gemm *gemm, double seconds);

/* Whether a CUDA call succeeded; says so if not. */
int gpu_good(gpu_run *run, int code, const char *call);

#endif
