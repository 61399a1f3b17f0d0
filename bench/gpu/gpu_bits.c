/* The results of single kernels, bit by bit: of a device, and of the emulator's model of it. The
 * same program, linked with either, writes them to a file; a third run compares two files. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/gpu_parts.h"
#include "bench/measure.h"
#include "engine/base/half.h"
#include "kernels/launch.h"

enum { ROWS = 70, COLUMNS = 128, K = 256, TOKENS = 50, MOST_BYTES = 1 << 20 };

/* One result in a file. */
typedef struct {
    char name[48];
    uint64_t count;     /* float32 numbers that follow: what is narrower is widened */
} bits_head;

/* -- Writing ---------------------------------------------------------------------------------- */

typedef struct {
    gpu_run *run;
    FILE *file;
    uint64_t random;
    char *a, *b, *bias, *out;   /* device, MOST_BYTES each */
    float *values;              /* host, MOST_BYTES / 4 */
    uint16_t *halves;
} bits_writer;

static size_t bytes_of(fc_number number)
{
    return number == FC_NUMBER_F32 ? 4 : 2;
}

/* Random numbers from -1 to 1 on the device. */
static int fill(bits_writer *w, char *device, fc_number number, size_t count)
{
    for (size_t i = 0; i < count; i++)
        w->values[i] = (float)random_next(&w->random) * 0x1p-31f - 1.0f;
    if (number == FC_NUMBER_F16)
        fc_floats_to_halves(w->values, count, w->halves);
    else if (number == FC_NUMBER_BF16)
        fc_floats_to_bf16s(w->values, count, w->halves);
    const void *host = number == FC_NUMBER_F32 ? (void *)w->values : (void *)w->halves;
    return gpu_good(w->run, cudaMemcpy(device, host, count * bytes_of(number),
                                       cudaMemcpyHostToDevice), "cudaMemcpy");
}

/* Writes what a kernel left in w->out. */
static void keep(bits_writer *w, const char *name, fc_number number, size_t count)
{
    bits_head head = { .count = count };
    snprintf(head.name, sizeof head.name, "%s", name);
    void *host = number == FC_NUMBER_F32 ? (void *)w->values : (void *)w->halves;
    if (!gpu_good(w->run, cudaGetLastError(), name) ||
        !gpu_good(w->run, cudaMemcpy(host, w->out, count * bytes_of(number),
                                     cudaMemcpyDeviceToHost), name))
        return;
    if (number == FC_NUMBER_F16)
        fc_halves_to_floats(w->halves, count, w->values);
    else if (number == FC_NUMBER_BF16)
        fc_bf16s_to_floats(w->halves, count, w->values);
    if (fwrite(&head, sizeof head, 1, w->file) != 1 ||
        fwrite(w->values, sizeof *w->values, count, w->file) != count)
        gpu_said(&w->run->report, GPU_FAIL, name, "cannot be written");
}

static void write_gemm(bits_writer *w, fc_number number, fc_gemm_tile tile,
                       fc_gemm_epilogue epilogue, const char *words)
{
    static const char *const numbers[] = { "f32", "bf16", "f16" };
    char name[48];
    const fc_gemm gemm = {
        .number = number, .epilogue = epilogue, .tile = tile, .x = w->a, .weight = w->b,
        .bias = (float *)w->bias, .out = w->out, .x_stride = K, .out_stride = COLUMNS,
        .rows = ROWS, .columns = COLUMNS, .k = K,
    };
    const fc_number result = epilogue == FC_GEMM_BIAS_RESIDUAL ? FC_NUMBER_F32 : number;
    w->random = 1;
    if (!fill(w, w->a, number, ROWS * K) || !fill(w, w->b, number, COLUMNS * K) ||
        !fill(w, w->bias, FC_NUMBER_F32, COLUMNS) || !fill(w, w->out, result, ROWS * COLUMNS))
        return;
    fc_launch_gemm(w->run->clock.stream, &gemm);
    snprintf(name, sizeof name, "product %s tile %d %s", numbers[number], (int)tile, words);
    keep(w, name, result, ROWS * COLUMNS);
}

static void write_gemms(bits_writer *w)
{
    for (fc_gemm_tile tile = 0; tile < FC_TILE_COUNT; tile++) {
        write_gemm(w, FC_NUMBER_F16, tile, FC_GEMM_BIAS_RESIDUAL, "residual");
        write_gemm(w, FC_NUMBER_BF16, tile, FC_GEMM_BIAS_RESIDUAL, "residual");
    }
    write_gemm(w, FC_NUMBER_F16, FC_TILE_64x64, FC_GEMM_BIAS, "bias");
    write_gemm(w, FC_NUMBER_F16, FC_TILE_64x64, FC_GEMM_BIAS_QUICK_GELU, "quickgelu");
    write_gemm(w, FC_NUMBER_F16, FC_TILE_64x64, FC_GEMM_BIAS_GELU, "gelu");
    write_gemm(w, FC_NUMBER_F32, 0, FC_GEMM_BIAS_RESIDUAL, "residual");
}

static void write_layernorm(bits_writer *w)
{
    if (fill(w, w->a, FC_NUMBER_F32, ROWS * K) && fill(w, w->b, FC_NUMBER_F32, K) &&
        fill(w, w->bias, FC_NUMBER_F32, K)) {
        fc_launch_layernorm(w->run->clock.stream, FC_NUMBER_F32, w->out, K, (float *)w->a, K,
                            (float *)w->b, (float *)w->bias, ROWS, K);
        keep(w, "LayerNorm", FC_NUMBER_F32, ROWS * K);
    }
}

static void write_attention(bits_writer *w, fc_number number, const char *name)
{
    enum { HEADS = 2, WIDTH = HEADS * FC_CUDA_HEAD_DIM };
    const size_t step = WIDTH * bytes_of(number);
    const fc_cuda_attention a = {
        .number = number, .q = w->a, .k = w->a + step, .v = w->a + 2 * step, .out = w->out,
        .q_stride = 3 * WIDTH, .kv_stride = 3 * WIDTH, .out_stride = WIDTH, .queries = TOKENS,
        .tokens = TOKENS, .heads = HEADS, .batch = 1,
    };
    if (fill(w, w->a, number, TOKENS * 3 * WIDTH)) {
        fc_launch_attention(w->run->clock.stream, &a);
        keep(w, name, number, TOKENS * WIDTH);
    }
}

/* A whole tower, with everything that there is between kernels. */
static void write_embeddings(bits_writer *w, flatclip_precision precision, const char *name)
{
    enum { COUNT = 2 };
    flatclip_error err;
    bits_head head = { .count = COUNT * 64 };
    float rows[COUNT * 64];
    flatclip_model *model = gpu_load(w->run, "tiny", precision);
    flatclip_session *session = model ? gpu_open(w->run, model, COUNT) : NULL;
    unsigned char *pixels = gpu_noise(COUNT);
    snprintf(head.name, sizeof head.name, "%s", name);
    if (session && flatclip_encode_pixels_u8(session, pixels, COUNT, rows, NULL, &err) ==
        FLATCLIP_OK && (fwrite(&head, sizeof head, 1, w->file) != 1 ||
                        fwrite(rows, sizeof rows, 1, w->file) != 1))
        gpu_said(&w->run->report, GPU_FAIL, name, "cannot be written");
    free(pixels);
    flatclip_session_free(session);
    flatclip_model_free(model);
}

void gpu_bits_write(gpu_run *run)
{
    bits_writer w = { .run = run, .file = fopen(run->file[0], "wb"), .random = 1 };
    char **blocks[] = { &w.a, &w.b, &w.bias, &w.out };
    int good = w.file != NULL;
    w.values = malloc(MOST_BYTES);
    w.halves = malloc(MOST_BYTES);
    for (int i = 0; good && i < 4; i++)
        good = gpu_good(run, cudaMalloc((void **)blocks[i], MOST_BYTES), "cudaMalloc");
    if (good && w.values && w.halves) {
        write_gemms(&w);
        write_layernorm(&w);
        write_attention(&w, FC_NUMBER_F16, "attention f16");
        write_attention(&w, FC_NUMBER_BF16, "attention bf16");
        write_embeddings(&w, FLATCLIP_PRECISION_F16, "embeddings f16");
        write_embeddings(&w, FLATCLIP_PRECISION_BF16, "embeddings bf16");
    }
    for (int i = 0; i < 4; i++)
        if (*blocks[i])
            (void)cudaFree(*blocks[i]);
    free(w.halves);
    free(w.values);
    if (!w.file || fclose(w.file) != 0)
        gpu_said(&run->report, GPU_FAIL, run->file[0], "cannot be written");
}

/* -- Comparing -------------------------------------------------------------------------------- */

/* The next result of a file, in values; 0 at its end. */
static int read_next(FILE *file, bits_head *head, float *values)
{
    return fread(head, sizeof *head, 1, file) == 1 && head->count <= MOST_BYTES / 4 &&
           fread(values, sizeof *values, head->count, file) == head->count;
}

/* Equal bits are what the model of tensor cores predicts, for products; where a kernel calls exp or
 * a reciprocal, the device's approximations differ in the last places. Neither is a failure; being
 * far apart is. */
static void compare(gpu_run *run, const bits_head *head, const float *a, const float *b)
{
    double largest = 0, scale = 0;
    uint64_t equal = 0;
    char words[64];
    for (uint64_t i = 0; i < head->count; i++) {
        const double gap = fabs((double)a[i] - (double)b[i]);
        equal += memcmp(&a[i], &b[i], sizeof *a) == 0;
        largest = gap <= largest ? largest : gap;
        scale = fabs((double)b[i]) > scale ? fabs((double)b[i]) : scale;
    }
    snprintf(words, sizeof words, "equal; largest difference %.2g of %.2g", largest, scale);
    gpu_found(&run->report, largest <= 0.02 * scale ? GPU_MEASURED : GPU_FAIL, head->name,
              100.0 * (double)equal / (double)head->count, "%", words);
}

void gpu_bits_compare(gpu_run *run)
{
    FILE *device = fopen(run->file[0], "rb"), *emulator = fopen(run->file[1], "rb");
    float *a = malloc(MOST_BYTES), *b = malloc(MOST_BYTES);
    bits_head left, right;
    int results = 0;
    while (device && emulator && a && b && read_next(device, &left, a) &&
           read_next(emulator, &right, b) && strcmp(left.name, right.name) == 0) {
        compare(run, &left, a, b);
        results++;
    }
    gpu_found(&run->report, results == 17 ? GPU_PASS : GPU_FAIL, "results compared", results, "",
              NULL);
    free(b);
    free(a);
    if (emulator)
        fclose(emulator);
    if (device)
        fclose(device);
}
