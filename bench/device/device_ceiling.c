/* Both grow the work until it takes long enough, so that a device with little of either is not
 * asked for more than it has. */
#include "bench/device/device_ceiling.h"

#include <cuda_runtime_api.h>
#include <math.h>

#include "bench/device/device_cublaslt.h"
#include "bench/device/device_memory.h"

enum { LEAST_SIDE = 64, MOST_SIDE = 8192 };
#define LEAST_COPY ((size_t)1 << 20)
#define MOST_COPY ((size_t)512 << 20)
#define LONG_ENOUGH 0.01 /* seconds */

static double time_square(const device_clock *clock, fc_number number, int side,
                          flatclip_error *err)
{
    const size_t bytes = (size_t)side * (size_t)side * 2, stride = (size_t)side;
    char *memory = device_zeros(clock->stream, 3 * bytes, err);
    double seconds = (double)NAN;
    if (memory) {
        const fc_gemm gemm = {
            .number = number, .epilogue = FC_GEMM_BIAS, .x = memory, .weight = memory + bytes,
            .out = memory + 2 * bytes, .x_stride = stride, .out_stride = stride, .rows = side,
            .columns = side, .k = side,
        };
        seconds = device_cublaslt_time(clock, &gemm, side == MOST_SIDE ? 1.0 : 0, err);
    }
    (void)cudaFree(memory);
    return seconds;
}

double device_ceiling_product(const device_clock *clock, fc_number number, int *side,
                              flatclip_error *err)
{
    double seconds = 0;
    *side = LEAST_SIDE / 2;
    while (*side < MOST_SIDE && seconds < LONG_ENOUGH) { /* not if it is NAN */
        *side *= 2;
        seconds = time_square(clock, number, *side, err);
    }
    return 2.0 * *side * *side * *side / seconds;
}

typedef struct {
    char *memory;
    size_t bytes;
} copying;

static void copy(fc_cuda_stream stream, void *context)
{
    const copying *c = context;
    (void)cudaMemcpyAsync(c->memory, c->memory + c->bytes, c->bytes, cudaMemcpyDeviceToDevice,
                          stream);
}

static double time_copy(const device_clock *clock, size_t bytes, flatclip_error *err)
{
    copying c = { device_zeros(clock->stream, 2 * bytes, err), bytes };
    const double seconds =
        c.memory ? device_time(clock, copy, &c, bytes == MOST_COPY ? 0.5 : 0, err) : (double)NAN;
    (void)cudaFree(c.memory);
    return seconds;
}

double device_ceiling_copy(const device_clock *clock, flatclip_error *err)
{
    double seconds = 0;
    size_t bytes = LEAST_COPY / 2;
    while (bytes < MOST_COPY && seconds < LONG_ENOUGH) {
        bytes *= 2;
        seconds = time_copy(clock, bytes, err);
    }
    return 2.0 * (double)bytes / seconds;
}
