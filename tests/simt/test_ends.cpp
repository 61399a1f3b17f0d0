/* Both ends of the image tower: patch embedding from pixels, and the head. */
#include "tests/simt/kernel_tests.h"

static const double MEAN[3] = { 0.48145466, 0.4578275, 0.40821073 };
static const double STD[3] = { 0.26862954, 0.26130258, 0.27577711 };

struct Grid {
    size_t image, patch, batch, width;
};

/* The weights as a model file has them, [width, channel, row, column], and as the kernel wants them
 * for one kind of pixels. */
template <class T> struct Patches {
    Grid g;
    size_t k;
    std::vector<double> weight; /* [width, 3 * patch^2] */
    Matrix<T> packed;
    Matrix<float> bias, x;

    explicit Patches(Grid grid)
        : g(grid), k((3 * grid.patch * grid.patch + 31) / 32 * 32),
          weight(grid.width * 3 * grid.patch * grid.patch), packed(grid.width, k, "weight"),
          bias(1, grid.width, "bias"),
          x(grid.batch * ((grid.image / grid.patch) * (grid.image / grid.patch) + 1), grid.width,
            "x", 8)
    {
        for (double &w : weight)
            w = widen(number<f16>::from(0.05 * uniform()));
    }

    size_t area() const { return g.patch * g.patch; }
    double w(size_t n, size_t c, size_t y, size_t i) const
    {
        return weight[((n * 3 + c) * g.patch + y) * g.patch + i];
    }

    void pack(bool floats)
    {
        for (size_t n = 0; n < g.width; n++) {
            double folded = 0;
            for (size_t i = 3 * area(); i < k; i++)
                packed.set(n, i, 0);
            for (size_t c = 0; c < 3; c++)
                for (size_t y = 0; y < g.patch; y++)
                    for (size_t i = 0; i < g.patch; i++) {
                        const double value = w(n, c, y, i);
                        const size_t at = floats ? (c * g.patch + y) * g.patch + i
                                                 : (y * g.patch + i) * 3 + c;
                        packed.set(n, at, floats ? value : value * 256 / (255 * STD[c]));
                        folded -= value * MEAN[c] / STD[c];
                    }
            bias.set(0, n, folded);
        }
        packed.upload();
        bias.upload();
    }

    /* Compares with the sum over normalised pixels; normalised(image, c, y, x) gives them. */
    template <class Pixel> void check(Pixel normalised)
    {
        const size_t grid = g.image / g.patch, tokens = grid * grid + 1;
        x.download();
        for (size_t r = 0; r < g.batch * tokens; r++)
            for (size_t n = 0; n < g.width && r % tokens; n++) {
                const size_t patch = r % tokens - 1;
                double sum = 0, squares = 0, magnitude = 0;
                for (size_t c = 0; c < 3; c++)
                    for (size_t y = 0; y < g.patch; y++)
                        for (size_t i = 0; i < g.patch; i++) {
                            const double term = w(n, c, y, i) *
                                normalised(r / tokens, c, patch / grid * g.patch + y,
                                           patch % grid * g.patch + i);
                            sum += term;
                            squares += term * term;
                            magnitude += fabs(w(n, c, y, i)) * 4; /* bytes are not centred */
                        }
                /* rounded factors err independently, float32 sums by a share of all they pass */
                expect_near(x.get(r, n), sum,
                            8 * number<T>::unit * sqrt(squares) + magnitude * 0x1p-20,
                            "patch embedding", r, n);
            }
    }
};

template <class T> static void embed_bytes(Grid g)
{
    Patches<T> patches(g);
    const size_t bytes = g.batch * g.image * g.image * 3;
    std::vector<uint8_t> pixels(bytes);
    for (uint8_t &p : pixels)
        p = (uint8_t)(127.5 + 127.5 * uniform());
    uint8_t *device = (uint8_t *)simt::allocate(bytes, "pixels");
    simt::upload(device, pixels.data(), bytes);
    simt::make_read_only(device);
    patches.pack(false);
    const fc_cuda_patch_embed embed = { number<T>::kind, device, 0, patches.packed.device,
                                        patches.bias.device, patches.x.device, patches.x.stride,
                                        (int)g.image, (int)g.patch, (int)g.batch, (int)g.width,
                                        (int)patches.k };
    fc_launch_patch_embed(nullptr, &embed);
    patches.check([&](size_t b, size_t c, size_t y, size_t i) {
        return (pixels[((b * g.image + y) * g.image + i) * 3 + c] / 255.0 - MEAN[c]) / STD[c];
    });
    simt::release(device);
}

template <class T> static void embed_floats(Grid g)
{
    Patches<T> patches(g);
    Matrix<float> pixels(g.batch * 3 * g.image, g.image, "pixels");
    pixels.randomize(2);
    pixels.upload();
    patches.pack(true);
    const fc_cuda_patch_embed embed = { number<T>::kind, pixels.device, 1, patches.packed.device,
                                        nullptr, patches.x.device, patches.x.stride, (int)g.image,
                                        (int)g.patch, (int)g.batch, (int)g.width, (int)patches.k };
    fc_launch_patch_embed(nullptr, &embed);
    patches.check([&](size_t b, size_t c, size_t y, size_t i) {
        return pixels.get((b * 3 + c) * g.image + y, i);
    });
}

/* Patches of 32 as in ViT-B/32; of 14, whose rows are no multiple of 8 bytes and whose K is padded;
 * several images, so that rows of the product cross from one to the next. */
static const Grid grids[] = { { 64, 32, 2, 64 }, { 28, 14, 3, 70 }, { 48, 16, 8, 64 } };

static void patches_of_bytes_are_embedded()
{
    for (const Grid &grid : grids) {
        embed_bytes<bf16>(grid);
        embed_bytes<f16>(grid);
        embed_bytes<float>(grid);
    }
}

static void patches_of_floats_are_embedded()
{
    for (const Grid &grid : grids) {
        embed_floats<bf16>(grid);
        embed_floats<f16>(grid);
        embed_floats<float>(grid);
    }
}

/* -- The head --------------------------------------------------------------------------------- */

template <class T> static void check_head(size_t batch, size_t width, size_t embed, bool normalize)
{
    Matrix<float> in(batch, width, "in", 8), gain(1, width, "gain"), bias(1, width, "bias");
    Matrix<float> out(batch, embed, "out");
    Matrix<T> weight(embed, width, "weight");
    in.randomize(3);
    gain.randomize(2);
    bias.randomize(1);
    weight.randomize(0.1);
    in.upload();
    gain.upload();
    bias.upload();
    weight.upload();
    const fc_cuda_head head = { number<T>::kind, out.device, in.device, in.stride, gain.device,
                                bias.device, weight.device, (int)batch, (int)width, (int)embed,
                                normalize };
    fc_launch_head(nullptr, &head);
    out.download();
    for (size_t b = 0; b < batch; b++) {
        double mean = 0, variance = 0, square = 0;
        std::vector<double> row(width), wanted(embed);
        for (size_t i = 0; i < width; i++)
            mean += in.get(b, i) / (double)width;
        for (size_t i = 0; i < width; i++)
            variance += (in.get(b, i) - mean) * (in.get(b, i) - mean) / (double)width;
        for (size_t i = 0; i < width; i++)
            row[i] = (in.get(b, i) - mean) / sqrt(variance + 1e-5) * gain.get(0, i) +
                     bias.get(0, i);
        for (size_t e = 0; e < embed; e++) {
            for (size_t i = 0; i < width; i++)
                wanted[e] += row[i] * weight.get(e, i);
            square += wanted[e] * wanted[e];
        }
        for (size_t e = 0; e < embed; e++)
            expect_near(out.get(b, e), normalize ? wanted[e] / sqrt(square) : wanted[e],
                        normalize ? 1e-6 : 2e-5, "head", b, e);
    }
}

static void the_head_projects_and_normalizes()
{
    check_head<float>(3, 128, 64, true);
    check_head<bf16>(2, 768, 512, true);
    check_head<f16>(1, 1024, 20, true);
    check_head<f16>(2, 128, 64, false);
    check_head<float>(1, 100, 7, false);
}

/* No direction, or a length whose square float32 does not hold: NaN, which the engine reports as
 * that item's error. */
static void a_row_without_direction_becomes_nan()
{
    const float weights[] = { 0, 1e-30f, 1e30f, INFINITY };
    for (float w : weights) {
        Matrix<float> in(1, 64, "in"), gain(1, 64, "gain"), bias(1, 64, "bias");
        Matrix<float> weight(8, 64, "weight"), out(1, 8, "out");
        in.randomize(1);
        gain.randomize(1);
        bias.randomize(1);
        for (float &x : weight.host)
            x = w;
        in.upload();
        gain.upload();
        bias.upload();
        weight.upload();
        const fc_cuda_head head = { FC_NUMBER_F32, out.device, in.device, in.stride, gain.device,
                                    bias.device, weight.device, 1, 64, 8, 1 };
        fc_launch_head(nullptr, &head);
        out.download();
        for (size_t e = 0; e < 8; e++)
            if (!isnan(out.get(0, e)))
                fail("[%zu] is %g, expected NaN", e, out.get(0, e));
    }
}

const Test end_tests[] = {
    { "patches_of_bytes_are_embedded", patches_of_bytes_are_embedded },
    { "patches_of_floats_are_embedded", patches_of_floats_are_embedded },
    { "the_head_projects_and_normalizes", the_head_projects_and_normalizes },
    { "a_row_without_direction_becomes_nan", a_row_without_direction_becomes_nan },
    { nullptr, nullptr },
};
