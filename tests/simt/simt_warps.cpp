/* Instructions that the lanes of a warp execute together, and asynchronous copies. */
#include "tests/simt/simt_state.h"

#include <math.h>
#include <string.h>

namespace simt {

enum { SYNC, SHUFFLE, LOAD, LOAD_TRANSPOSED, MULTIPLY_BF16, MULTIPLY_F16 };
static const unsigned FULL = 0xffffffffu;

/* The meeting that the running lane joins, or opens. aligned: the machine demands the whole warp at
 * one place. */
static Meeting &join(unsigned mask, int instruction, bool aligned, int line)
{
    Warp &warp = warps[current / 32];
    const int lane = current % 32;
    thread[current].line = line;
    if (!(mask >> lane & 1))
        report("warp instruction (line %d): lane %d is not in its own mask %#x", line, lane, mask);
    if (aligned && warp.live != warp.all)
        report("warp instruction (line %d) without lanes that have ended (live: %#x)", line,
               warp.live);
    if ((mask & warp.all) != mask)
        report("warp instruction (line %d): the mask %#x names lanes that do not exist", line,
               mask);
    for (Meeting &m : warp.meetings) {
        if (!(m.mask & mask))
            continue;
        if (m.mask != mask || m.instruction != instruction)
            report("warp instruction (line %d): others wait in another one, or with another mask "
                   "(line %d)", line, m.line);
        if (aligned && m.line != line)
            report("WARP DIVERGENCE: lanes are at lines %d and %d", m.line, line);
        return m;
    }
    warp.meetings.push_back(Meeting{ mask, 0, instruction, line, {} });
    return warp.meetings.back();
}

/* Waits for the other lanes of mask; the last one to come runs act for all. */
template <class Act>
static void together(unsigned mask, int instruction, bool aligned, int line, void *argument,
                     Act act)
{
    Meeting &meeting = join(mask, instruction, aligned, line);
    Warp &warp = warps[current / 32];
    meeting.arrived |= 1u << current % 32;
    meeting.argument[current % 32] = argument;
    if (meeting.arrived != (mask & warp.live)) {
        put_to_sleep(IN_WARP);
        wait_for_others();
        return;
    }
    const Meeting complete = meeting;
    warp.meetings.erase(warp.meetings.begin() + (&meeting - warp.meetings.data()));
    for (int lane = 0; lane < 32; lane++)
        if (complete.arrived >> lane & 1 && lane != current % 32)
            wake(current / 32 * 32 + lane);
    act(complete);
}

void warp_barrier(unsigned mask, int line)
{
    together(mask, SYNC, false, line, nullptr, [](const Meeting &all) {
        Warp &warp = warps[current / 32];
        if (all.arrived == warp.live)
            warp.clock++;
    });
}

uint32_t shuffle(unsigned mask, uint32_t value, int source, int line)
{
    struct Argument {
        uint32_t value, result;
        int source;
    } mine = { value, 0, source };
    counts.shuffles++;
    together(mask, SHUFFLE, false, line, &mine, [line](const Meeting &all) {
        for (int lane = 0; lane < 32; lane++) {
            if (!(all.arrived >> lane & 1))
                continue;
            Argument *to = (Argument *)all.argument[lane];
            if (to->source < 0 || to->source > 31 || !(all.arrived >> to->source & 1))
                report("shuffle (line %d) reads lane %d, which does not take part", line,
                       to->source);
            to->result = ((Argument *)all.argument[to->source])->value;
        }
    });
    return mine.result;
}

/* -- Asynchronous copies ---------------------------------------------------------------------- */

enum { COPY_BYTES = 16 };

/* The bytes come with the wait. Until then what was there is gone, and nothing may touch it. */
void copy_async(void *to, const void *from, bool present, int line, const void *site)
{
    counts.copies++;
    thread[current].line = line;
    if ((uintptr_t)to % COPY_BYTES || (present && (uintptr_t)from % COPY_BYTES))
        report("MISALIGNED asynchronous copy (line %d) from %p to %p", line, from, to);
    if (!is_shared(to))
        report("asynchronous copy (line %d) to what is not shared memory", line);
    if (present)
        check_access(from, COPY_BYTES, false, false, true, site);
    check_access(to, COPY_BYTES, true, true, true, site);
    memset(to, 0xff, COPY_BYTES);
    thread[current].open.push_back(Copy{ (char *)to, (const char *)from, present });
}

void copy_commit()
{
    thread[current].groups.push_back(std::move(thread[current].open));
    thread[current].open.clear();
}

void copy_wait(int pending)
{
    auto &groups = thread[current].groups;
    const uint64_t record = warps[current / 32].clock << EPOCH_SHIFT | (uint64_t)current;
    while ((int)groups.size() > pending) {
        for (const Copy &copy : groups.front()) {
            if (copy.present)
                memcpy(copy.to, copy.from, COPY_BYTES);
            else
                memset(copy.to, 0, COPY_BYTES);
            for (int i = 0; i < COPY_BYTES / 2; i++)
                shared_cells[(copy.to - shared_memory) / 2 + i].write = record;
        }
        groups.erase(groups.begin());
    }
}

/* -- Matrices --------------------------------------------------------------------------------- */

void load_matrices(uint32_t *r, const void *row, bool transposed, int line, const void *site)
{
    struct Argument {
        uint32_t *r;
        const char *row;
    } mine = { r, (const char *)row };
    thread[current].line = line;
    if ((uintptr_t)row % 16)
        report("MISALIGNED row %p of a matrix (line %d)", row, line);
    check_access(row, 16, false, false, true, site);
    together(FULL, transposed ? LOAD_TRANSPOSED : LOAD, true, line, &mine,
             [transposed](const Meeting &all) {
        counts.matrix_loads++;
        for (int m = 0; m < 4; m++) {
            uint16_t matrix[8][8];
            int busy[8] = { 0 }, waves = 1;
            for (int i = 0; i < 8; i++) {
                const char *from = ((Argument *)all.argument[m * 8 + i])->row;
                const int group = (int)((uintptr_t)from / 16 % 8); /* of four banks */
                memcpy(matrix[i], from, 16);
                waves = ++busy[group] > waves ? busy[group] : waves;
            }
            counts.matrix_waves += (uint64_t)waves;
            for (int lane = 0; lane < 32; lane++) {
                const int i = lane / 4, j = lane % 4 * 2;
                const uint32_t low = transposed ? matrix[j][i] : matrix[i][j];
                const uint32_t high = transposed ? matrix[j + 1][i] : matrix[i][j + 1];
                ((Argument *)all.argument[lane])->r[m] = low | high << 16;
            }
        }
    });
}

static float widen(uint32_t bits, bool is_bf16)
{
    float value;
    const uint32_t wide = is_bf16 ? bits << 16 : (bits & 0x8000) << 16 | (bits & 0x7fff) << 13;
    memcpy(&value, &wide, sizeof value);
    if (is_bf16)
        return value;
    return (bits & 0x7c00) == 0x7c00 ? copysignf(bits & 0x3ff ? NAN : INFINITY, value)
                                     : value * 0x1p112f; /* the two types' exponents */
}

/* -- How a tensor core adds ------------------------------------------------------------------- */

enum { M = 16, N = 8, K = 16 }; /* rows, columns, and what is summed over */

struct Factors {
    double left[M][K], right[K][N];
    int left_exponent[M][K], right_exponent[K][N];
};

/* The exponent by which it aligns: that of the leading bit, subnormals at their type's lowest. */
static int exponent_of(float x, int lowest)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int e = (int)(bits >> 23 & 255) - 127; /* of 0 and subnormals: below every lowest */
    if (x == 0 || e == 128)
        return -126;
    return e < lowest ? lowest : e;
}

static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Without a call, as there are sixteen for every sum; NaN and infinity stay what they are. */
static double truncated(double x) { return fabs(x) < 0x1p31 ? (double)(int32_t)x : x; }

static float cut_to_float(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= ~(((uint64_t)1 << 29) - 1);
    memcpy(&x, &bits, sizeof bits);
    return (float)x;
}

/* Adds count products to each sum of row i, aligned to the largest of them. All columns at once, so
 * that the compiler may take several in one instruction. */
static void add_group(const Factors &f, float *sum, int i, int first, int count, int fraction_bits)
{
    int most[N];
    double scale[N], total[N];
    for (int j = 0; j < N; j++)
        most[j] = exponent_of(sum[j], -126);
    for (int k = first; k < first + count; k++)
        for (int j = 0; j < N; j++) {
            const int exponent = f.left_exponent[i][k] + f.right_exponent[k][j];
            most[j] = exponent > most[j] ? exponent : most[j];
        }
    for (int j = 0; j < N; j++) {
        scale[j] = power_of_two(fraction_bits - most[j]);
        total[j] = truncated((double)sum[j] * scale[j]);
    }
    for (int k = first; k < first + count; k++) /* products are exact in double */
        for (int j = 0; j < N; j++)
            total[j] += truncated(f.left[i][k] * f.right[k][j] * scale[j]);
    for (int j = 0; j < N; j++)
        sum[j] = cut_to_float(total[j] * power_of_two(most[j] - fraction_bits));
}

static void add_exactly(const Factors &f, float *sum, int i)
{
    double total[N];
    for (int j = 0; j < N; j++)
        total[j] = (double)sum[j];
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            total[j] += f.left[i][k] * f.right[k][j];
    for (int j = 0; j < N; j++)
        sum[j] = (float)total[j];
}

static void add_products(const Factors &f, float *sum, int i)
{
    switch (settings.rounding) {
    case EXACT: add_exactly(f, sum, i); break;
    case GROUPS_OF_16: add_group(f, sum, i, 0, 16, 25); break;
    case GROUPS_OF_8:
        add_group(f, sum, i, 0, 8, 24);
        add_group(f, sum, i, 8, 8, 24);
        break;
    }
}

void multiply_add(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, bool is_bf16, int line)
{
    struct Argument {
        float *d;
        const uint32_t *a;
        uint32_t b[2];
    } mine = { d, a, { b0, b1 } };
    together(FULL, is_bf16 ? MULTIPLY_BF16 : MULTIPLY_F16, true, line, &mine,
             [is_bf16](const Meeting &all) {
        Factors f;
        float sum[M][N];
        const int lowest = is_bf16 ? -126 : -14;
        counts.multiplies++;
        for (int lane = 0; lane < 32; lane++) {
            const Argument *from = (Argument *)all.argument[lane];
            const int i = lane / 4, j = lane % 4 * 2;
            for (int e = 0; e < 8; e++) { /* register e / 2, its half e % 2 */
                const float x = widen(from->a[e / 2] >> 16 * (e % 2) & 0xffff, is_bf16);
                const int row = i + e / 2 % 2 * 8, k = j + e / 4 * 8 + e % 2;
                f.left[row][k] = (double)x;
                f.left_exponent[row][k] = exponent_of(x, lowest);
            }
            for (int e = 0; e < 4; e++) {
                const float x = widen(from->b[e / 2] >> 16 * (e % 2) & 0xffff, is_bf16);
                const int k = j + e / 2 * 8 + e % 2;
                f.right[k][i] = (double)x;
                f.right_exponent[k][i] = exponent_of(x, lowest);
            }
            for (int e = 0; e < 4; e++)
                sum[i + e / 2 * 8][j + e % 2] = from->d[e];
        }
        for (int i = 0; i < M; i++)
            add_products(f, sum[i], i);
        for (int lane = 0; lane < 32; lane++)
            for (int e = 0; e < 4; e++)
                ((Argument *)all.argument[lane])->d[e] =
                    sum[lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2];
    });
}

} /* namespace simt */
