/* What tests of kernels are written in: device buffers, numbers, and a list of named tests. */
#ifndef KERNEL_TEST_H
#define KERNEL_TEST_H

#include <initializer_list>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/launch.h"
#include "tests/simt/simt.h"

typedef __nv_bfloat16 bf16;
typedef __half f16;

inline float widen(float x) { return x; }
inline float widen(bf16 x) { return __bfloat162float(x); }
inline float widen(f16 x) { return __half2float(x); }

template <class T> struct number;
template <> struct number<float> {
    static constexpr fc_number kind = FC_NUMBER_F32;
    static constexpr double unit = 0x1p-24; /* rounding to it errs by at most this, relatively */
    static float from(double x) { return (float)x; }
};
template <> struct number<bf16> {
    static constexpr fc_number kind = FC_NUMBER_BF16;
    static constexpr double unit = 0x1p-8;
    static bf16 from(double x) { return __float2bfloat16_rn((float)x); }
};
template <> struct number<f16> {
    static constexpr fc_number kind = FC_NUMBER_F16;
    static constexpr double unit = 0x1p-11;
    static f16 from(double x) { return __float2half_rn((float)x); }
};

/* -- The running test ------------------------------------------------------------------------- */

struct Outcome {
    bool good = true;
    char why[700] = "";
};
extern Outcome outcome;

__attribute__((format(printf, 1, 2))) void fail(const char *format, ...);

/* Random numbers from -1 to 1, the same in every run. */
float uniform();

/* A matrix [rows, columns] on the device, whose rows lie stride apart. The gaps are never written:
 * reading one is a finding, and so is writing one (check_gaps). */
template <class T> struct Matrix {
    size_t rows, columns, stride;
    std::vector<T> host;
    T *device;

    Matrix(size_t rows_, size_t columns_, const char *name, size_t gap = 0)
        : rows(rows_), columns(columns_), stride(columns_ + gap), host(rows_ * (columns_ + gap)),
          device((T *)simt::allocate(rows_ * (columns_ + gap) * sizeof(T), name))
    {
        memset((void *)host.data(), 0xff, host.size() * sizeof(T));
    }
    Matrix(const Matrix &) = delete;
    ~Matrix() { simt::release(device); }

    T &at(size_t r, size_t c) { return host[r * stride + c]; }
    double get(size_t r, size_t c) const { return widen(host[r * stride + c]); }
    void set(size_t r, size_t c, double x) { at(r, c) = number<T>::from(x); }

    void randomize(double scale)
    {
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                set(r, c, uniform() * scale);
    }
    /* Rows only, so that gaps stay unwritten. */
    void upload(bool read_only = true)
    {
        for (size_t r = 0; r < rows; r++)
            simt::upload(device + r * stride, &host[r * stride], columns * sizeof(T));
        if (read_only)
            simt::make_read_only(device);
    }
    void download()
    {
        std::vector<T> before = host;
        simt::download(host.data(), device, host.size() * sizeof(T));
        static const T untouched = [] { T t; memset((void *)&t, 0xff, sizeof t); return t; }();
        for (size_t r = 0; r < rows; r++)
            for (size_t c = columns; c < stride; c++)
                if (memcmp(&host[r * stride + c], &untouched, sizeof(T)))
                    fail("the gap behind row %zu was written", r);
    }
};

/* Fails the test if value is further than tolerance from expected, or is NaN. */
inline void expect_near(double value, double expected, double tolerance, const char *what, size_t r,
                        size_t c)
{
    if (!(fabs(value - expected) <= tolerance))
        fail("%s [%zu, %zu] is %.9g, expected %.9g within %.3g", what, r, c, value, expected,
             tolerance);
}

/* A long test runs under one of the settings alone (0 to 2); the others under all three. */
struct Test {
    const char *name;
    void (*run)();
    int only = -1;
};

/* Runs a test, from the same random numbers each time; what became of it is in outcome. */
void run_once(const Test &test);

/* Hands every test whose name contains one of the arguments, or every test if there are none, to
 * run, which says whether it passed; prints the sums. Returns the exit code. */
int run_tests(std::initializer_list<const Test *> lists, bool (*run)(const Test &), int argc,
              char **argv);

#endif
