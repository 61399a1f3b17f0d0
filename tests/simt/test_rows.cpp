/* LayerNorm, token rows and gathering. */
#include "tests/simt/kernel_tests.h"

struct Norm {
    std::vector<double> gain, bias;
};

/* What LayerNorm makes of a row, in float64. */
static std::vector<double> reference(const std::vector<double> &row, const Norm &norm)
{
    const size_t width = row.size();
    double mean = 0, variance = 0;
    for (double x : row)
        mean += x / (double)width;
    for (double x : row)
        variance += (x - mean) * (x - mean) / (double)width;
    std::vector<double> out(width);
    for (size_t i = 0; i < width; i++)
        out[i] = (row[i] - mean) / sqrt(variance + 1e-5) * norm.gain[i] + norm.bias[i];
    return out;
}

static Norm make_norm(Matrix<float> &gain, Matrix<float> &bias)
{
    Norm norm;
    gain.randomize(2);
    bias.randomize(1);
    gain.upload();
    bias.upload();
    for (size_t i = 0; i < gain.columns; i++) {
        norm.gain.push_back(gain.get(0, i));
        norm.bias.push_back(bias.get(0, i));
    }
    return norm;
}

/* offset and scale make rows whose mean is far from 0, or whose variance is as small as epsilon. */
template <class T>
static void check_layernorm(size_t rows, size_t width, double offset, double scale)
{
    Matrix<float> in(rows, width, "in", 8), gain(1, width, "gain"), bias(1, width, "bias");
    Matrix<T> out(rows, width, "out", 8);
    const Norm norm = make_norm(gain, bias);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++)
            in.set(r, c, offset + uniform() * scale);
    in.upload();
    fc_launch_layernorm(nullptr, number<T>::kind, out.device, out.stride, in.device, in.stride,
                        gain.device, bias.device, (int)rows, (int)width);
    out.download();
    const double lost = fabs(offset) / scale * 0x1p-22; /* by float32 differences */
    for (size_t r = 0; r < rows; r++) {
        std::vector<double> row(width);
        for (size_t c = 0; c < width; c++)
            row[c] = in.get(r, c);
        const std::vector<double> expected = reference(row, norm);
        for (size_t c = 0; c < width; c++)
            expect_near(out.get(r, c), expected[c],
                        (fabs(expected[c]) + 2) * (number<T>::unit + 0x1p-21) + 4 * lost,
                        "layernorm", r, c);
    }
}

static void layernorm_equals_the_formula()
{
    static const size_t widths[] = { 64, 100, 128, 512, 768, 1000, 1024, 1280, 2048 };
    for (size_t width : widths) {
        check_layernorm<float>(5, width, 0, 2);
        check_layernorm<bf16>(3, width, 0, 2);
        check_layernorm<f16>(1, width, 0.5, 2);
    }
}

static void layernorm_keeps_small_variances_and_large_means()
{
    check_layernorm<float>(2, 768, 0, 0.004);
    check_layernorm<float>(2, 768, 100, 1);
    check_layernorm<bf16>(2, 768, -300, 3);
}

static void check_tokens(size_t width)
{
    const size_t batch = 3, tokens = 5;
    Matrix<float> x(batch * tokens, width, "x", 16), token(1, width, "class token");
    Matrix<float> position(tokens, width, "position"), gain(1, width, "gain");
    Matrix<float> bias(1, width, "bias");
    const Norm norm = make_norm(gain, bias);
    x.randomize(1);
    token.randomize(1);
    position.randomize(1);
    for (size_t r = 0; r < batch * tokens; r++) /* class rows hold nothing yet */
        if (r % tokens)
            simt::upload(x.device + r * x.stride, &x.at(r, 0), width * sizeof(float));
    token.upload();
    position.upload();
    std::vector<std::vector<double>> expected;
    for (size_t r = 0; r < batch * tokens; r++) {
        std::vector<double> row(width);
        for (size_t c = 0; c < width; c++)
            row[c] = (r % tokens ? x.get(r, c) : token.get(0, c)) + position.get(r % tokens, c);
        expected.push_back(reference(row, norm));
    }
    fc_launch_tokens(nullptr, x.device, x.stride, token.device, position.device, gain.device,
                     bias.device, (int)batch, (int)tokens, (int)width);
    x.download();
    for (size_t r = 0; r < batch * tokens; r++)
        for (size_t c = 0; c < width; c++)
            expect_near(x.get(r, c), expected[r][c], 4e-6, "tokens", r, c);
}

/* A vector a lane, less than one, and several. */
static void tokens_are_placed_added_and_normalized()
{
    static const size_t widths[] = { 128, 100, 768, 2048 };
    for (size_t width : widths)
        check_tokens(width);
}

static void gathered_rows_are_copies()
{
    const size_t rows = 4, step = 3, width = 1032;
    Matrix<float> in(rows * step, width, "in", 8), out(rows, width, "out", 4);
    in.randomize(1);
    in.upload();
    fc_launch_gather(nullptr, out.device, out.stride * 4, in.device, in.stride * 4, (int)step,
                     (int)rows, width * 4);
    out.download();
    for (size_t r = 0; r < rows; r++)
        if (memcmp(&out.at(r, 0), &in.at(r * step, 0), width * sizeof(float)))
            fail("row %zu is no copy", r);
}

const Test row_tests[] = {
    { "layernorm_equals_the_formula", layernorm_equals_the_formula },
    { "layernorm_keeps_small_variances_and_large_means",
      layernorm_keeps_small_variances_and_large_means },
    { "tokens_are_placed_added_and_normalized", tokens_are_placed_added_and_normalized },
    { "gathered_rows_are_copies", gathered_rows_are_copies },
    { nullptr, nullptr },
};
