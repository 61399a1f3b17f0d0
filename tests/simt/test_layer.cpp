/* One block of each tower of ViT-B/32 at its full size, against float64: sums over 3072 terms,
 * grids of many blocks, and errors that add up from one step to the next. */
#include "tests/simt/kernel_tests.h"

struct Shape {
    int tokens, width, heads;
    bool is_causal;
};
static const Shape VISION = { 50, 768, 12, false }, TEXT = { 77, 512, 8, true };

/* -- Weights ---------------------------------------------------------------------------------- */

/* What has this standard deviation when it is uniform. */
static double range(double deviation) { return deviation * sqrt(3.0); }

/* Sizes are those of synthetic models (weights_tools/synth.c), which follow trained ones: factor
 * over the root of the length of a sum. */
template <class T> struct Linear {
    Matrix<T> weight;
    Matrix<float> bias;

    Linear(int columns, int k, double factor, const char *name)
        : weight((size_t)columns, (size_t)k, name), bias(1, (size_t)columns, "bias")
    {
        weight.randomize(range(factor / sqrt((double)k)));
        bias.randomize(range(0.1));
        weight.upload();
        bias.upload();
    }
};

struct Norm {
    Matrix<float> gain, bias;

    explicit Norm(int width) : gain(1, (size_t)width, "gain"), bias(1, (size_t)width, "bias")
    {
        for (size_t i = 0; i < gain.columns; i++)
            gain.set(0, i, 1 + uniform() * range(0.1));
        bias.randomize(range(0.1));
        gain.upload();
        bias.upload();
    }
};

template <class T> struct Layer {
    Shape shape;
    Norm ln_1, ln_2;
    Linear<T> qkv, out, fc1, fc2;

    explicit Layer(const Shape &s)
        : shape(s), ln_1(s.width), ln_2(s.width), qkv(3 * s.width, s.width, 1.5, "qkv"),
          out(s.width, s.width, 1, "out"), fc1(4 * s.width, s.width, 1, "fc1"),
          fc2(s.width, 4 * s.width, 0.5, "fc2")
    {
    }
};

/* -- In float64 ------------------------------------------------------------------------------- */

struct Rows {
    int rows, columns;
    std::vector<double> data;

    Rows(int rows_, int columns_)
        : rows(rows_), columns(columns_), data((size_t)rows_ * (size_t)columns_)
    {
    }
    double *row(int r) { return &data[(size_t)r * (size_t)columns]; }
    const double *row(int r) const { return &data[(size_t)r * (size_t)columns]; }
};

static Rows normalized(const Rows &x, const Norm &norm)
{
    Rows h(x.rows, x.columns);
    for (int r = 0; r < x.rows; r++) {
        double mean = 0, variance = 0;
        for (int c = 0; c < x.columns; c++)
            mean += x.row(r)[c] / x.columns;
        for (int c = 0; c < x.columns; c++)
            variance += (x.row(r)[c] - mean) * (x.row(r)[c] - mean) / x.columns;
        for (int c = 0; c < x.columns; c++)
            h.row(r)[c] = (x.row(r)[c] - mean) / sqrt(variance + 1e-5) *
                              norm.gain.get(0, (size_t)c) + norm.bias.get(0, (size_t)c);
    }
    return h;
}

template <class T> static Rows product(const Rows &x, const Linear<T> &linear)
{
    Rows y(x.rows, (int)linear.weight.rows);
    std::vector<double> weight(linear.weight.columns);
    for (int c = 0; c < y.columns; c++) {
        for (size_t k = 0; k < weight.size(); k++)
            weight[k] = linear.weight.get((size_t)c, k);
        for (int r = 0; r < x.rows; r++) {
            double sum = linear.bias.get(0, (size_t)c);
            for (int k = 0; k < x.columns; k++)
                sum += x.row(r)[k] * weight[(size_t)k];
            y.row(r)[c] = sum;
        }
    }
    return y;
}

/* What one query of a head gets: weights of the keys that it sees, and their values' mean. */
static void attend(const Rows &qkv, const Shape &s, int query, int head, double *out)
{
    const int last = s.is_causal ? query + 1 : s.tokens;
    const double *q = qkv.row(query) + head * 64;
    double weight[FC_CUDA_MAX_TOKENS], sum = 0;
    for (int key = 0; key < last; key++) {
        double score = 0;
        for (int d = 0; d < 64; d++)
            score += q[d] * qkv.row(key)[s.width + head * 64 + d];
        sum += weight[key] = exp(score / 8); /* of a few units: no maximum is needed in float64 */
    }
    for (int d = 0; d < 64; d++) {
        out[d] = 0;
        for (int key = 0; key < last; key++)
            out[d] += weight[key] / sum * qkv.row(key)[2 * s.width + head * 64 + d];
    }
}

static void add(Rows &x, const Rows &y)
{
    for (size_t i = 0; i < x.data.size(); i++)
        x.data[i] += y.data[i];
}

template <class T> static Rows reference(const Layer<T> &layer, Rows x)
{
    const Shape &s = layer.shape;
    const Rows qkv = product(normalized(x, layer.ln_1), layer.qkv);
    Rows h(s.tokens, s.width);
    for (int query = 0; query < s.tokens; query++)
        for (int head = 0; head < s.heads; head++)
            attend(qkv, s, query, head, h.row(query) + head * 64);
    add(x, product(h, layer.out));
    Rows mlp = product(normalized(x, layer.ln_2), layer.fc1);
    for (double &v : mlp.data)
        v = v / (1 + exp(-1.702 * v));
    add(x, product(mlp, layer.fc2));
    return x;
}

/* -- By the kernels --------------------------------------------------------------------------- */

template <class T, class Out>
static void launch_product(fc_gemm_epilogue epilogue, fc_gemm_tile tile, const Matrix<T> &x,
                           const Linear<T> &linear, Matrix<Out> &out)
{
    const fc_gemm gemm = {
        number<T>::kind, epilogue, tile, x.device, linear.weight.device, linear.bias.device,
        out.device, x.stride, out.stride, (int)x.rows, (int)linear.weight.rows, (int)x.columns
    };
    fc_launch_gemm(nullptr, &gemm);
}

template <class T> static void launch_norm(Matrix<T> &out, const Matrix<float> &x, const Norm &norm)
{
    fc_launch_layernorm(nullptr, number<T>::kind, out.device, out.stride, x.device, x.stride,
                        norm.gain.device, norm.bias.device, (int)x.rows, (int)x.columns);
}

/* The operations of engine/tower.c in their order; each product has another tile. */
template <class T> static void run_on_device(const Layer<T> &layer, Matrix<float> &x)
{
    const Shape &s = layer.shape;
    const size_t rows = (size_t)s.tokens, width = (size_t)s.width;
    Matrix<T> h(rows, width, "h"), qkv(rows, 3 * width, "qkv rows"), mlp(rows, 4 * width, "mlp");
    launch_norm(h, x, layer.ln_1);
    launch_product(FC_GEMM_BIAS, FC_TILE_64x64, h, layer.qkv, qkv);
    const fc_cuda_attention attention = {
        number<T>::kind, qkv.device, qkv.device + width, qkv.device + 2 * width, h.device,
        qkv.stride, qkv.stride, h.stride, s.tokens, s.tokens, s.heads, 1, s.is_causal
    };
    fc_launch_attention(nullptr, &attention);
    launch_product(FC_GEMM_BIAS_RESIDUAL, FC_TILE_64x32, h, layer.out, x);
    launch_norm(h, x, layer.ln_2);
    launch_product(FC_GEMM_BIAS_QUICK_GELU, FC_TILE_128x128, h, layer.fc1, mlp);
    launch_product(FC_GEMM_BIAS_RESIDUAL, FC_TILE_128x64, mlp, layer.fc2, x);
}

/* -- Tests ------------------------------------------------------------------------------------ */

/* Bounds, in what one rounding to T errs by: for the root of the mean square of all errors, and for
 * the worst of the 40 thousand elements. What a layer adds to the stream is about 1. */
static const double MEAN_BOUND = 1.25, WORST_BOUND = 6;

template <class T> static void check_layer(const Shape &shape)
{
    const Layer<T> layer(shape);
    Matrix<float> x((size_t)shape.tokens, (size_t)shape.width, "x");
    Rows wanted(shape.tokens, shape.width);
    x.randomize(range(1));
    for (size_t r = 0; r < x.rows; r++) { /* trained models have a few channels that stand out */
        x.set(r, 92, 12 + uniform());
        x.set(r, 33, -9 + uniform());
    }
    x.upload(false);
    for (size_t i = 0; i < wanted.data.size(); i++)
        wanted.data[i] = (double)x.host[i];
    wanted = reference(layer, wanted);

    run_on_device(layer, x);
    x.download();
    double squares = 0;
    for (size_t r = 0; r < x.rows; r++)
        for (size_t c = 0; c < x.columns; c++) {
            const double expected = wanted.row((int)r)[c], error = x.get(r, c) - expected;
            squares += error * error;
            expect_near(x.get(r, c), expected, WORST_BOUND * number<T>::unit, "layer", r, c);
        }
    const double mean = sqrt(squares / (double)wanted.data.size());
    if (!(mean <= MEAN_BOUND * number<T>::unit))
        fail("errors of %.3g in the mean, expected at most %.3g", mean,
             MEAN_BOUND * number<T>::unit);
}

static void a_full_size_image_layer_equals_float64_in_f16() { check_layer<f16>(VISION); }
static void a_full_size_image_layer_equals_float64_in_bf16() { check_layer<bf16>(VISION); }
static void a_full_size_text_layer_equals_float64_in_f16() { check_layer<f16>(TEXT); }
static void a_full_size_text_layer_equals_float64_in_bf16() { check_layer<bf16>(TEXT); }

const Test layer_tests[] = {
    { "a_full_size_image_layer_equals_float64_in_f16",
      a_full_size_image_layer_equals_float64_in_f16, 1 },
    { "a_full_size_image_layer_equals_float64_in_bf16",
      a_full_size_image_layer_equals_float64_in_bf16, 2 },
    { "a_full_size_text_layer_equals_float64_in_f16", a_full_size_text_layer_equals_float64_in_f16,
      2 },
    { "a_full_size_text_layer_equals_float64_in_bf16",
      a_full_size_text_layer_equals_float64_in_bf16, 1 },
    { nullptr, nullptr },
};
