/* Matrix products: every tile and epilogue, edges of all kinds, the same bits from all tiles. */
#include "tests/simt/kernel_tests.h"

struct Shape {
    size_t rows, columns, k;
};

static double activation(fc_gemm_epilogue epilogue, double x)
{
    switch (epilogue) {
    case FC_GEMM_BIAS_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case FC_GEMM_BIAS_GELU: return x * 0.5 * (1 + erf(x * sqrt(0.5)));
    default: return x;
    }
}

/* The operands of one product, random; and what becomes of them. */
template <class T> struct Product {
    Matrix<T> x, weight, out;
    Matrix<float> bias, stream;
    fc_gemm gemm;

    Product(Shape s, fc_gemm_epilogue epilogue, double scale = 1)
        : x(s.rows, s.k, "x", 8), weight(s.columns, s.k, "weight"),
          out(s.rows, s.columns, "out", 8), bias(1, s.columns, "bias"),
          stream(s.rows, s.columns, "residual stream", 8),
          gemm{ number<T>::kind, epilogue, FC_TILE_64x64, nullptr, nullptr, nullptr, nullptr, 0, 0,
                (int)s.rows, (int)s.columns, (int)s.k }
    {
        x.randomize(scale);
        weight.randomize(1);
        bias.randomize(1);
        stream.randomize(4);
        x.upload();
        weight.upload();
        bias.upload();
        stream.upload(false);
        const bool residual = epilogue == FC_GEMM_BIAS_RESIDUAL;
        gemm.x = x.device;
        gemm.x_stride = x.stride;
        gemm.weight = weight.device;
        gemm.bias = bias.device;
        gemm.out = residual ? (void *)stream.device : (void *)out.device;
        gemm.out_stride = residual ? stream.stride : out.stride;
    }

    double expected(size_t r, size_t c, double *magnitude) const
    {
        double sum = gemm.bias ? bias.get(0, c) : 0;
        *magnitude = fabs(sum);
        for (size_t k = 0; k < x.columns; k++) {
            sum += x.get(r, k) * weight.get(c, k);
            *magnitude += fabs(x.get(r, k) * weight.get(c, k));
        }
        if (gemm.epilogue == FC_GEMM_BIAS_RESIDUAL) {
            *magnitude += fabs(stream.get(r, c));
            return sum + stream.get(r, c);
        }
        return activation(gemm.epilogue, sum);
    }

    /* Launches, and compares every element. */
    void check()
    {
        std::vector<double> wanted, room;
        for (size_t r = 0; r < x.rows; r++)
            for (size_t c = 0; c < weight.rows; c++) {
                double magnitude;
                wanted.push_back(expected(r, c, &magnitude));
                room.push_back(magnitude);
            }
        fc_launch_gemm(nullptr, &gemm);
        const bool residual = gemm.epilogue == FC_GEMM_BIAS_RESIDUAL;
        residual ? stream.download() : out.download();
        for (size_t i = 0; i < wanted.size(); i++) {
            const size_t r = i / weight.rows, c = i % weight.rows;
            const double unit = residual ? 0x1p-24 : number<T>::unit;
            expect_near(residual ? stream.get(r, c) : out.get(r, c), wanted[i],
                        fabs(wanted[i]) * unit * 1.01 + room[i] * 0x1p-21, "product", r, c);
        }
    }
};

static const Shape shapes[] = {
    { 1, 64, 32 }, { 50, 64, 64 }, { 64, 32, 96 }, { 70, 66, 32 }, { 129, 130, 64 }, { 3, 2, 256 },
};

template <class T> static void check_tiles(fc_gemm_epilogue epilogue)
{
    for (int tile = 0; tile < FC_TILE_COUNT; tile++)
        for (const Shape &shape : shapes) {
            Product<T> product(shape, epilogue);
            product.gemm.tile = (fc_gemm_tile)tile;
            product.check();
        }
}

static void every_tile_multiplies_bf16() { check_tiles<bf16>(FC_GEMM_BIAS); }
static void every_tile_multiplies_f16() { check_tiles<f16>(FC_GEMM_BIAS); }
static void every_tile_adds_to_the_residual_stream() { check_tiles<f16>(FC_GEMM_BIAS_RESIDUAL); }

static void activations_equal_their_formulas()
{
    static const fc_gemm_epilogue both[] = { FC_GEMM_BIAS_QUICK_GELU, FC_GEMM_BIAS_GELU };
    for (fc_gemm_epilogue epilogue : both) {
        Product<bf16>({ 50, 64, 64 }, epilogue).check();
        Product<f16>({ 50, 64, 64 }, epilogue).check();
        Product<float>({ 50, 64, 64 }, epilogue).check();
        Product<f16>({ 20, 64, 32 }, epilogue, 20).check(); /* far into both tails */
    }
}

static void float32_products_keep_float32()
{
    for (const Shape &shape : shapes) {
        Product<float>(shape, FC_GEMM_BIAS).check();
        Product<float>(shape, FC_GEMM_BIAS_RESIDUAL).check();
    }
}

/* The epilogue alone, on rows that another library multiplied. */
template <class T> static void check_finish(fc_gemm_epilogue epilogue)
{
    const size_t rows = 5, columns = 1030;
    Matrix<T> out(rows, columns, "out", 2);
    Matrix<float> bias(1, columns, "bias");
    std::vector<double> wanted;
    out.randomize(8);
    bias.randomize(1);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            wanted.push_back(activation(epilogue, out.get(r, c) + bias.get(0, c)));
    out.upload(false);
    bias.upload();
    const fc_gemm gemm = { number<T>::kind, epilogue, FC_TILE_64x64, nullptr, nullptr, bias.device,
                           out.device, 0, out.stride, (int)rows, (int)columns, 0 };
    fc_launch_finish(nullptr, &gemm);
    out.download();
    for (size_t i = 0; i < wanted.size(); i++)
        expect_near(out.get(i / columns, i % columns), wanted[i],
                    fabs(wanted[i]) * number<T>::unit * 1.01 + 0x1p-19, "finished", i / columns,
                    i % columns);
}

static void a_pass_of_its_own_finishes_products()
{
    static const fc_gemm_epilogue all[] = { FC_GEMM_BIAS, FC_GEMM_BIAS_QUICK_GELU,
                                            FC_GEMM_BIAS_GELU };
    for (fc_gemm_epilogue epilogue : all) {
        check_finish<bf16>(epilogue);
        check_finish<f16>(epilogue);
    }
}

static void a_bias_may_be_absent()
{
    Product<bf16> product({ 5, 64, 32 }, FC_GEMM_BIAS);
    product.gemm.bias = nullptr;
    product.check();
}

/* Rows of a product, computed again one by one with every tile. */
template <class T> static void check_rows()
{
    const Shape shape = { 70, 130, 160 };
    Product<T> product(shape, FC_GEMM_BIAS_QUICK_GELU);
    fc_launch_gemm(nullptr, &product.gemm);
    product.out.download();
    product.gemm.rows = 1;
    for (size_t r = 0; r < shape.rows; r += 23) {
        Matrix<T> alone(1, shape.columns, "out of one row", 8);
        product.gemm.tile = (fc_gemm_tile)(r % FC_TILE_COUNT);
        product.gemm.x = product.x.device + r * product.x.stride;
        product.gemm.out = alone.device;
        fc_launch_gemm(nullptr, &product.gemm);
        alone.download();
        if (memcmp(&alone.at(0, 0), &product.out.at(r, 0), shape.columns * sizeof(T)))
            fail("row %zu alone has other bits", r);
    }
}

static void a_row_alone_has_the_same_bits()
{
    check_rows<bf16>();
    check_rows<f16>();
    check_rows<float>();
}

template <class T> static void compare_tiles()
{
    Product<T> product({ 70, 130, 160 }, FC_GEMM_BIAS_QUICK_GELU);
    std::vector<T> first;
    for (int tile = 0; tile < FC_TILE_COUNT; tile++) {
        Matrix<T> out(70, 130, "out", 8);
        product.gemm.tile = (fc_gemm_tile)tile;
        product.gemm.out = out.device;
        fc_launch_gemm(nullptr, &product.gemm);
        out.download();
        if (tile && memcmp(first.data(), out.host.data(), out.host.size() * sizeof(T)))
            fail("tile %d gives other bits than tile 0", tile);
        first = out.host;
    }
}

static void every_tile_has_the_same_bits()
{
    compare_tiles<bf16>();
    compare_tiles<f16>();
}

const Test gemm_tests[] = {
    { "every_tile_multiplies_bf16", every_tile_multiplies_bf16 },
    { "every_tile_multiplies_f16", every_tile_multiplies_f16 },
    { "every_tile_adds_to_the_residual_stream", every_tile_adds_to_the_residual_stream },
    { "activations_equal_their_formulas", activations_equal_their_formulas },
    { "float32_products_keep_float32", float32_products_keep_float32 },
    { "a_pass_of_its_own_finishes_products", a_pass_of_its_own_finishes_products },
    { "a_bias_may_be_absent", a_bias_may_be_absent },
    { "a_row_alone_has_the_same_bits", a_row_alone_has_the_same_bits },
    { "every_tile_has_the_same_bits", every_tile_has_the_same_bits },
    { nullptr, nullptr },
};
