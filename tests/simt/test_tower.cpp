/* The whole tiny model through the kernels: the operations of engine/tower.c in their order, with
 * real weights and pixels, against the goldens. */
#include "tests/simt/kernel_tests.h"

#include <string>

extern "C" {
#include "engine/base/safetensors.h"
}

static const int TOKENS = 50, WIDTH = 128, LAYERS = 2, HEADS = 2, EMBED = 64;
static const int SIDE = 224, PATCH = 32;
static const int PIXELS = SIDE * SIDE * 3, K = PATCH * PATCH * 3;
static const double MEAN[3] = { 0.48145466, 0.4578275, 0.40821073 };
static const double STD[3] = { 0.26862954, 0.26130258, 0.27577711 };

/* -- Files ------------------------------------------------------------------------------------ */

struct File {
    fc_safetensors *file = nullptr;

    explicit File(const char *path)
    {
        flatclip_error err;
        if (fc_safetensors_open(path, &file, &err) != FLATCLIP_OK)
            fail("%s (`make test` makes the models)", err.message);
    }
    File(const File &) = delete;
    ~File() { fc_safetensors_close(file); }

    std::vector<float> floats(const std::string &name) const
    {
        const fc_tensor *tensor = file ? fc_safetensors_find(file, name.c_str()) : nullptr;
        flatclip_error err = { FLATCLIP_ERR_FORMAT, "missing" };
        std::vector<float> values(tensor ? tensor->count : 0);
        if (!tensor || fc_safetensors_read_f32(file, tensor, 0, tensor->count, values.data(), &err))
            fail("%s: %s", name.c_str(), err.message);
        return values;
    }
    std::vector<uint8_t> bytes(const std::string &name) const
    {
        const fc_tensor *tensor = file ? fc_safetensors_find(file, name.c_str()) : nullptr;
        flatclip_error err = { FLATCLIP_ERR_FORMAT, "missing" };
        std::vector<uint8_t> values(tensor ? tensor->count : 0);
        if (!tensor ||
            fc_safetensors_read_bytes(file, tensor, 0, tensor->count, values.data(), &err))
            fail("%s: %s", name.c_str(), err.message);
        return values;
    }
};

/* Device memory that is released with the tower. */
struct Pool {
    std::vector<void *> blocks;

    Pool() = default;
    Pool(const Pool &) = delete;
    ~Pool()
    {
        for (void *block : blocks)
            simt::release(block);
    }
    template <class T> T *take(size_t count, const char *name)
    {
        blocks.push_back(simt::allocate(count * sizeof(T), name));
        return (T *)blocks.back();
    }
    template <class T, class V> T *put(const std::vector<V> &values, const char *name)
    {
        std::vector<T> numbers(values.size());
        for (size_t i = 0; i < values.size(); i++)
            numbers[i] = number<T>::from((double)values[i]);
        T *block = take<T>(values.size(), name);
        simt::upload(block, numbers.data(), numbers.size() * sizeof(T));
        simt::make_read_only(block);
        return block;
    }
};

/* -- The tower -------------------------------------------------------------------------------- */

template <class T> struct Block {
    float *ln_1[2], *ln_2[2];
    T *qkv, *out, *fc1, *fc2;
    float *qkv_bias, *out_bias, *fc1_bias, *fc2_bias;
};

template <class T> struct Tower {
    Pool pool;
    T *patch, *proj;
    float *patch_bias, *class_token, *position, *ln_pre[2], *ln_post[2];
    Block<T> block[LAYERS];
    int tile = 0;               /* another one each time: bits must not depend on it */

    explicit Tower(const File &model)
    {
        put_patches(model.floats("visual.conv1.weight"));
        class_token = pool.put<float>(model.floats("visual.class_embedding"), "class token");
        position = pool.put<float>(model.floats("visual.positional_embedding"), "position");
        put_norm(model, "visual.ln_pre", ln_pre);
        put_norm(model, "visual.ln_post", ln_post);
        const std::vector<float> across = model.floats("visual.proj");
        std::vector<float> down(across.size());
        for (int e = 0; e < EMBED; e++)
            for (int i = 0; i < WIDTH; i++)
                down[e * WIDTH + i] = across[i * EMBED + e];
        proj = pool.put<T>(down, "proj");
        for (int l = 0; l < LAYERS; l++)
            put_block(model, "visual.transformer.resblocks." + std::to_string(l) + ".", block[l]);
    }

    void put_norm(const File &model, const std::string &name, float *(&norm)[2])
    {
        norm[0] = pool.put<float>(model.floats(name + ".weight"), "gain");
        norm[1] = pool.put<float>(model.floats(name + ".bias"), "bias");
    }

    void put_block(const File &model, const std::string &name, Block<T> &b)
    {
        put_norm(model, name + "ln_1", b.ln_1);
        put_norm(model, name + "ln_2", b.ln_2);
        b.qkv = pool.put<T>(model.floats(name + "attn.in_proj_weight"), "qkv");
        b.out = pool.put<T>(model.floats(name + "attn.out_proj.weight"), "out");
        b.fc1 = pool.put<T>(model.floats(name + "mlp.c_fc.weight"), "fc1");
        b.fc2 = pool.put<T>(model.floats(name + "mlp.c_proj.weight"), "fc2");
        b.qkv_bias = pool.put<float>(model.floats(name + "attn.in_proj_bias"), "qkv bias");
        b.out_bias = pool.put<float>(model.floats(name + "attn.out_proj.bias"), "out bias");
        b.fc1_bias = pool.put<float>(model.floats(name + "mlp.c_fc.bias"), "fc1 bias");
        b.fc2_bias = pool.put<float>(model.floats(name + "mlp.c_proj.bias"), "fc2 bias");
    }

    /* Columns in the order of the pixels, normalisation folded in: as kernels/launch.h asks. */
    void put_patches(const std::vector<float> &weight)
    {
        std::vector<double> folded(weight.size()), bias(WIDTH);
        for (int n = 0; n < WIDTH; n++)
            for (int c = 0; c < 3; c++)
                for (int i = 0; i < PATCH * PATCH; i++) {
                    const double w = (double)weight[(n * 3 + c) * PATCH * PATCH + i];
                    folded[n * K + i * 3 + c] = w * 256 / (255 * STD[c]);
                    bias[n] -= w * MEAN[c] / STD[c];
                }
        patch = pool.put<T>(folded, "patches");
        patch_bias = pool.put<float>(bias, "patch bias");
    }

    void product(fc_gemm_epilogue epilogue, const void *x, size_t x_stride, const T *weight,
                 const float *bias, void *out, size_t out_stride, int rows, int columns, int k)
    {
        const fc_gemm gemm = {
            number<T>::kind, epilogue, (fc_gemm_tile)(tile++ % FC_TILE_COUNT), x, weight, bias, out,
            x_stride, out_stride, rows, columns, k
        };
        fc_launch_gemm(nullptr, &gemm);
    }

    void norm(T *out, const float *in, float *(&w)[2], int rows)
    {
        fc_launch_layernorm(nullptr, number<T>::kind, out, WIDTH, in, WIDTH, w[0], w[1], rows,
                            WIDTH);
    }

    void attend(const T *q, size_t q_stride, const T *k, const T *v, size_t stride, T *out,
                int queries, int batch)
    {
        const fc_cuda_attention attention = { number<T>::kind, q, k, v, out, q_stride, stride,
                                              WIDTH, queries, TOKENS, HEADS, batch, 0 };
        fc_launch_attention(nullptr, &attention);
    }

    void run_block(Block<T> &b, float *x, T *h, T *qkv, T *mlp, int batch)
    {
        const int rows = batch * TOKENS;
        norm(h, x, b.ln_1, rows);
        product(FC_GEMM_BIAS, h, WIDTH, b.qkv, b.qkv_bias, qkv, 3 * WIDTH, rows, 3 * WIDTH, WIDTH);
        attend(qkv, 3 * WIDTH, qkv + WIDTH, qkv + 2 * WIDTH, 3 * WIDTH, h, TOKENS, batch);
        product(FC_GEMM_BIAS_RESIDUAL, h, WIDTH, b.out, b.out_bias, x, WIDTH, rows, WIDTH, WIDTH);
        norm(h, x, b.ln_2, rows);
        product(FC_GEMM_BIAS_QUICK_GELU, h, WIDTH, b.fc1, b.fc1_bias, mlp, 4 * WIDTH, rows,
                4 * WIDTH, WIDTH);
        product(FC_GEMM_BIAS_RESIDUAL, mlp, 4 * WIDTH, b.fc2, b.fc2_bias, x, WIDTH, rows, WIDTH,
                4 * WIDTH);
    }

    /* Keys and values for every row, all else for the class token alone. Leaves the class rows'
     * residual stream in pooled [batch, WIDTH]. */
    void run_last_block(Block<T> &b, const float *x, T *h, T *kv, T *mlp, float *pooled, int batch)
    {
        Pool scratch;
        const size_t count = (size_t)batch * WIDTH;
        T *q = scratch.take<T>(count, "q"), *one = scratch.take<T>(count, "attention of one");
        T *normed = scratch.take<T>(count, "h of the MLP");
        norm(h, x, b.ln_1, batch * TOKENS);
        fc_launch_gather(nullptr, pooled, WIDTH * 4, x, WIDTH * 4, TOKENS, batch, WIDTH * 4);
        product(FC_GEMM_BIAS, h, (size_t)TOKENS * WIDTH, b.qkv, b.qkv_bias, q, WIDTH, batch, WIDTH,
                WIDTH);
        product(FC_GEMM_BIAS, h, WIDTH, b.qkv + (size_t)WIDTH * WIDTH, b.qkv_bias + WIDTH, kv,
                2 * WIDTH, batch * TOKENS, 2 * WIDTH, WIDTH);
        attend(q, WIDTH, kv, kv + WIDTH, 2 * WIDTH, one, 1, batch);
        product(FC_GEMM_BIAS_RESIDUAL, one, WIDTH, b.out, b.out_bias, pooled, WIDTH, batch, WIDTH,
                WIDTH);
        norm(normed, pooled, b.ln_2, batch);
        product(FC_GEMM_BIAS_QUICK_GELU, normed, WIDTH, b.fc1, b.fc1_bias, mlp, 4 * WIDTH, batch,
                4 * WIDTH, WIDTH);
        product(FC_GEMM_BIAS_RESIDUAL, mlp, 4 * WIDTH, b.fc2, b.fc2_bias, pooled, WIDTH, batch,
                WIDTH, 4 * WIDTH);
    }

    /* Unit rows [batch, EMBED] of pixels [batch, SIDE, SIDE, 3]. */
    std::vector<float> encode(const std::vector<uint8_t> &pixels)
    {
        Pool p;
        const int batch = (int)(pixels.size() / PIXELS);
        const size_t rows = (size_t)batch * TOKENS;
        uint8_t *input = p.take<uint8_t>(pixels.size(), "pixels");
        simt::upload(input, pixels.data(), pixels.size());
        float *x = p.take<float>(rows * WIDTH, "x");
        T *h = p.take<T>(rows * WIDTH, "h"), *qkv = p.take<T>(rows * 3 * WIDTH, "qkv");
        T *kv = p.take<T>(rows * 2 * WIDTH, "kv"), *mlp = p.take<T>(rows * 4 * WIDTH, "mlp");
        float *pooled = p.take<float>((size_t)batch * WIDTH, "pooled");
        float *out = p.take<float>((size_t)batch * EMBED, "out");
        const fc_cuda_patch_embed embed = { number<T>::kind, input, 0, patch, patch_bias, x, WIDTH,
                                            SIDE, PATCH, batch, WIDTH, K };
        fc_launch_patch_embed(nullptr, &embed);
        fc_launch_tokens(nullptr, x, WIDTH, class_token, position, ln_pre[0], ln_pre[1], batch,
                         TOKENS, WIDTH);
        for (int l = 0; l + 1 < LAYERS; l++)
            run_block(block[l], x, h, qkv, mlp, batch);
        run_last_block(block[LAYERS - 1], x, h, kv, mlp, pooled, batch);
        const fc_cuda_head head = { number<T>::kind, out, pooled, WIDTH, ln_post[0], ln_post[1],
                                    proj, batch, WIDTH, EMBED, 1 };
        fc_launch_head(nullptr, &head);
        std::vector<float> result((size_t)batch * EMBED);
        simt::download(result.data(), out, result.size() * sizeof(float));
        return result;
    }
};

/* -- Tests ------------------------------------------------------------------------------------ */

static const char MODEL[] = "build/models/tiny.safetensors";

/* Names of pictures, and the rows of the goldens that they have (tests/data/images.txt). */
static const struct {
    const char *name;
    size_t row;
} PICTURES[] = { { "astronaut_420.jpg", 0 }, { "camera_gray.jpg", 1 }, { "cat_1bit.png", 4 } };

template <class T> static void check_goldens(double bound)
{
    const File model(MODEL), pictures("tests/data/pixels_openai.safetensors");
    const File golden("tests/data/image_tiny.safetensors");
    const std::vector<float> unit = golden.floats("unit");
    std::vector<uint8_t> pixels;
    for (const auto &picture : PICTURES) {
        const std::vector<uint8_t> one = pictures.bytes(picture.name);
        pixels.insert(pixels.end(), one.begin(), one.end());
    }
    if (!outcome.good)
        return;
    Tower<T> tower(model);
    const std::vector<float> rows = tower.encode(pixels);
    for (size_t i = 0; i < sizeof PICTURES / sizeof *PICTURES; i++)
        for (size_t e = 0; e < (size_t)EMBED; e++)
            expect_near((double)rows[i * EMBED + e], (double)unit[PICTURES[i].row * EMBED + e],
                        bound, PICTURES[i].name, i, e);
}

/* The bounds of docs/numerics.md. */
static void the_tiny_model_equals_its_goldens_in_f32() { check_goldens<float>(1e-6); }
static void the_tiny_model_equals_its_goldens_in_f16() { check_goldens<f16>(1e-3); }
static void the_tiny_model_equals_its_goldens_in_bf16() { check_goldens<bf16>(5e-3); }

/* Batches of 1, 2, 3 and 5, in which a picture has other places, and with other tiles. */
template <class T> static void check_batches()
{
    const File model(MODEL), pictures("tests/data/pixels_openai.safetensors");
    const std::vector<uint8_t> a = pictures.bytes("cat_1bit.png");
    const std::vector<uint8_t> b = pictures.bytes("camera_gray.jpg");
    if (!outcome.good)
        return;
    Tower<T> tower(model);
    const std::vector<float> alone = tower.encode(a);
    for (int batch : { 2, 3, 5 }) {
        std::vector<uint8_t> pixels;
        for (int i = 0; i < batch; i++)
            pixels.insert(pixels.end(), (i == batch - 1 ? a : b).begin(),
                          (i == batch - 1 ? a : b).end());
        const std::vector<float> rows = tower.encode(pixels);
        if (memcmp(&rows[(size_t)(batch - 1) * EMBED], alone.data(), EMBED * sizeof(float)))
            fail("a picture has other bits at the end of a batch of %d than alone", batch);
    }
}

static void the_tiny_model_has_the_same_bits_in_every_batch()
{
    check_batches<bf16>();
    check_batches<f16>();
}

const Test tower_tests[] = {
    { "the_tiny_model_equals_its_goldens_in_f32", the_tiny_model_equals_its_goldens_in_f32, 0 },
    { "the_tiny_model_equals_its_goldens_in_f16", the_tiny_model_equals_its_goldens_in_f16, 1 },
    { "the_tiny_model_equals_its_goldens_in_bf16", the_tiny_model_equals_its_goldens_in_bf16, 2 },
    { "the_tiny_model_has_the_same_bits_in_every_batch",
      the_tiny_model_has_the_same_bits_in_every_batch, 2 },
    { nullptr, nullptr },
};
