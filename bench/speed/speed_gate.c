/* Compares our linear layer with a plain loop. */
#define _GNU_SOURCE
#include "bench/speed/speed_gate.h"

#include <math.h>

#include "bench/measure.h"
#include "engine/cpu/cpu_backend.h"

/* A layer of ViT-B/32 for four images; the plain loop does a few rows of it. */
enum { ROWS = 200, DEPTH = 768, COLUMNS = 768, PORTABLE_ROWS = 48, PLAIN_ROWS = 2, ROUNDS = 150 };

typedef struct {
    float *in;     /* [ROWS, DEPTH] */
    float *weight; /* [COLUMNS, DEPTH], and the same in panels */
    float *panels;
    float *out;    /* [ROWS, COLUMNS] */
    float *plain;  /* [PLAIN_ROWS, COLUMNS] */
} gate_data;

typedef struct {
    const char *name;    /* of the instruction set */
    double over_plain;   /* least ratios */
    double over_portable;
} gate_floor;

/* Measured on Emerald Rapids: AVX-512 49 times the plain loop and 6 times the portable kernels,
 * AVX2 25 and 3.1, portable 8.1 (docs/PERFORMANCE.md). Half of that is left for other processors
 * and for a neighbour on the same core, who slows down what fills the units, but not the plain
 * loop. */
static gate_floor floor_of_this_cpu(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return (gate_floor){ avx512 ? "avx512" : "avx2", avx512 ? 15 : 12, 1.4 };
    }
#endif
    return (gate_floor){ "portable", 4, 0.7 };
}

static __attribute__((noinline)) void plain_product(const gate_data *d)
{
    for (int r = 0; r < PLAIN_ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            const float *a = d->in + r * DEPTH, *b = d->weight + c * DEPTH;
            float sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += a[k] * b[k];
            d->plain[r * COLUMNS + c] = sum;
        }
}

static int open_data(gate_data *d, int panel)
{
    const size_t floats = (size_t)ROWS * DEPTH + 2 * (size_t)COLUMNS * DEPTH +
                          (size_t)(ROWS + PLAIN_ROWS) * COLUMNS;
    uint64_t random = 1;
    d->in = fc_block_alloc(floats * sizeof *d->in);
    if (!d->in)
        return 0;
    d->weight = d->in + ROWS * DEPTH;
    d->panels = d->weight + COLUMNS * DEPTH;
    d->out = d->panels + COLUMNS * DEPTH;
    d->plain = d->out + ROWS * COLUMNS;
    for (size_t i = 0; i < (size_t)(ROWS + COLUMNS) * DEPTH; i++)
        d->in[i] = (float)(random_next(&random) >> 8) / (1 << 23) - 1.0f;
    for (int c = 0; c < COLUMNS; c++)
        for (int k = 0; k < DEPTH; k++)
            d->panels[(c / panel * DEPTH + k) * panel + c % panel] = d->weight[c * DEPTH + k];
    return 1;
}

typedef struct {
    double ours, portable, plain; /* FLOP a second, the best of all rounds */
} gate_rates;

static double time_layer(const gate_data *d, fc_cpu_backend *cpu, int rows)
{
    const fc_linear layer = { d->panels, NULL, DEPTH, COLUMNS };
    const fc_rows in = { d->in, 0, DEPTH, sizeof(float) };
    const fc_rows out = { d->out, 0, COLUMNS, sizeof(float) };
    const double start = seconds_now();
    fc_cpu_linear(&cpu->base, out, in, &layer, rows, FC_PLAIN);
    return 2.0 * DEPTH * COLUMNS * rows / (seconds_now() - start);
}

static double time_plain(const gate_data *d)
{
    const double start = seconds_now();
    plain_product(d);
    return 2.0 * DEPTH * COLUMNS * PLAIN_ROWS / (seconds_now() - start);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* All three, in turns. The portable kernels read our panels as if they were their own, narrower
 * ones: other numbers, the same work. So ours are last, and leave the numbers that are checked. */
static gate_rates compare(const gate_data *d, fc_cpu_backend *cpu)
{
    fc_cpu_backend portable = { .kernels = fc_cpu_kernels_for(FC_ISA_PORTABLE), .pool = cpu->pool };
    gate_rates best = { 0, 0, 0 };
    for (int round = 0; round < ROUNDS; round++) {
        best.portable = larger(best.portable, time_layer(d, &portable, PORTABLE_ROWS));
        best.plain = larger(best.plain, time_plain(d));
        best.ours = larger(best.ours, time_layer(d, cpu, ROWS));
    }
    return best;
}

static int agree(const gate_data *d)
{
    for (int i = 0; i < PLAIN_ROWS * COLUMNS; i++)
        if (!(fabsf(d->out[i] - d->plain[i]) <= 1e-3f))
            return 0;
    return 1;
}

static int run_gate(speed_report *report, const gate_data *d, fc_cpu_backend *cpu, fc_isa isa)
{
    const gate_floor least = floor_of_this_cpu();
    const gate_rates rates = compare(d, cpu);
    const double over_plain = rates.ours / rates.plain, over_portable = rates.ours / rates.portable;
    const int same = agree(d);
    const int good = same && over_plain >= least.over_plain &&
                     over_portable >= least.over_portable;
    const speed_cell cells[] = {
        { "cpu", least.name, 0, 0, 0 },
        { "engine", fc_isa_name(isa), 0, 0, 0 },
        { "gflops", NULL, rates.ours / 1e9, 1, 0 },
        { "plain_gflops", NULL, rates.plain / 1e9, 2, 1 },
        { "portable_gflops", NULL, rates.portable / 1e9, 1, 1 },
        { "over_plain", NULL, over_plain, 1, 0 },
        { "plain_floor", NULL, least.over_plain, 1, 0 },
        { "over_portable", NULL, over_portable, 2, 0 },
        { "portable_floor", NULL, least.over_portable, 2, 0 },
        { "same_numbers", same ? "yes" : "no", 0, 0, 0 },
        { "verdict", good ? "PASS" : "FAIL", 0, 0, 0 },
    };
    speed_report_row(report, cells, sizeof cells / sizeof *cells);
    return good;
}

int speed_gate(speed_report *report, flatclip_error *err)
{
    fc_isa isa;
    gate_data data = { .in = NULL };
    fc_cpu_backend cpu = { .kernels = NULL };
    int result = -1;
    if (fc_isa_choose(&isa, err) != FLATCLIP_OK || fc_pool_create(1, &cpu.pool, err) != FLATCLIP_OK)
        return -1;
    cpu.kernels = fc_cpu_kernels_for(isa);
    if (open_data(&data, cpu.kernels->panel))
        result = run_gate(report, &data, &cpu, isa);
    else
        fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the matrices of the gate");
    fc_block_free(data.in);
    fc_pool_free(cpu.pool);
    return result;
}
