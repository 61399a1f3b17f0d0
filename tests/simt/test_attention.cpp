/* Attention: every count of tokens that changes something, causal or not, with scores that are
 * random and with scores that a wrong mask or a wrong maximum would betray. */
#include "tests/simt/kernel_tests.h"

/* Random; all scores far below 0, where a padded key's 0 would win; maxima that lie far apart from
 * row to row; one key that takes everything. */
enum Scores { RANDOM_SCORES, NEGATIVE, FAR_APART, ONE_HOT };

struct Case {
    size_t batch, heads, tokens, queries;
    bool causal;
    Scores scores;
};

static double q_value(const Case &c, size_t token, size_t d)
{
    switch (c.scores) {
    case NEGATIVE: return -1 + 0.05 * uniform();
    case FAR_APART: return (double)(token * 5 % 16) * 0.8 + 0.05 * uniform();
    case ONE_HOT: return d == token % 64 ? 30 : 0;
    default: return 2 * uniform();
    }
}

static double k_value(const Case &c, size_t token, size_t d)
{
    switch (c.scores) {
    case NEGATIVE: return 5 + 0.05 * uniform();
    case FAR_APART: return 4 + 0.05 * uniform();
    case ONE_HOT: return d == token % 64 ? 30 : 0;
    default: return 2 * uniform();
    }
}

template <class T> static void check(const Case &c)
{
    const size_t width = c.heads * 64;
    /* q, k and v side by side, as the product leaves them; a single query lies by itself. */
    Matrix<T> qkv(c.batch * c.tokens, 3 * width, "qkv", 8), one(c.batch, width, "q", 8);
    Matrix<T> out(c.batch * c.queries, width, "out", 8);
    for (size_t r = 0; r < qkv.rows; r++)
        for (size_t h = 0; h < c.heads; h++)
            for (size_t d = 0; d < 64; d++) {
                qkv.set(r, h * 64 + d, q_value(c, r % c.tokens, d));
                qkv.set(r, width + h * 64 + d, k_value(c, r % c.tokens, d));
                qkv.set(r, 2 * width + h * 64 + d, 2 * uniform());
            }
    qkv.upload();
    const bool pooled = c.queries == 1 && c.tokens > 1;
    for (size_t r = 0; r < c.batch; r++)
        for (size_t i = 0; i < width; i++)
            one.at(r, i) = qkv.at(r * c.tokens, i);
    one.upload();
    const fc_cuda_attention attention = {
        number<T>::kind, pooled ? one.device : qkv.device, qkv.device + width,
        qkv.device + 2 * width, out.device, pooled ? one.stride : qkv.stride, qkv.stride,
        out.stride, (int)c.queries, (int)c.tokens, (int)c.heads, (int)c.batch, c.causal
    };
    fc_launch_attention(nullptr, &attention);
    out.download();
    for (size_t b = 0; b < c.batch; b++)
        for (size_t h = 0; h < c.heads; h++)
            for (size_t i = 0; i < c.queries; i++) {
                const size_t first = b * c.tokens, keys = c.causal ? i + 1 : c.tokens;
                std::vector<double> p(keys);
                double most = -INFINITY, sum = 0;
                for (size_t j = 0; j < keys; j++) {
                    for (size_t d = 0; d < 64; d++)
                        p[j] += qkv.get(first + i, h * 64 + d) *
                                qkv.get(first + j, width + h * 64 + d) / 8;
                    most = p[j] > most ? p[j] : most;
                }
                for (double &x : p)
                    sum += x = exp(x - most);
                for (size_t d = 0; d < 64; d++) {
                    double value = 0;
                    for (size_t j = 0; j < keys; j++)
                        value += p[j] / sum * qkv.get(first + j, 2 * width + h * 64 + d);
                    /* weights and values are rounded to T; scores are float32 sums */
                    const double room = 3 * number<T>::unit + (1 + fabs(most)) * 0x1p-20;
                    expect_near(out.get(b * c.queries + i, h * 64 + d), value, 2 * room,
                                "attention", b * c.queries + i, h * 64 + d);
                }
            }
}

static const Case cases[] = {
    { 1, 1, 50, 50, false, RANDOM_SCORES }, { 1, 1, 50, 50, false, NEGATIVE },
    { 1, 1, 50, 50, false, FAR_APART },     { 1, 1, 50, 50, false, ONE_HOT },
    { 2, 2, 50, 50, false, RANDOM_SCORES }, { 1, 1, 64, 64, false, NEGATIVE },
    { 1, 1, 1, 1, false, RANDOM_SCORES },   { 2, 1, 5, 5, false, NEGATIVE },
    { 3, 2, 50, 1, false, RANDOM_SCORES },  { 2, 1, 77, 1, false, NEGATIVE },
    { 1, 1, 77, 77, false, NEGATIVE },      { 1, 1, 80, 80, false, FAR_APART },
    { 1, 1, 65, 65, false, NEGATIVE },      { 1, 2, 77, 77, true, RANDOM_SCORES },
    { 1, 1, 77, 77, true, NEGATIVE },       { 1, 1, 77, 77, true, ONE_HOT },
    { 2, 1, 16, 16, true, FAR_APART },      { 1, 1, 17, 17, true, NEGATIVE },
};

template <class T> static void check_all()
{
    for (const Case &c : cases)
        check<T>(c);
}

static void attention_equals_the_formula_in_bf16() { check_all<bf16>(); }
static void attention_equals_the_formula_in_f16() { check_all<f16>(); }
static void attention_equals_the_formula_in_f32() { check_all<float>(); }

/* One query alone has the bits that it has among all. */
template <class T> static void compare_pooled()
{
    const size_t batch = 3, tokens = 50;
    Matrix<T> qkv(batch * tokens, 192, "qkv"), all(batch * tokens, 64, "out");
    Matrix<T> one(batch, 64, "out of one query");
    qkv.randomize(2);
    qkv.upload();
    fc_cuda_attention a = { number<T>::kind, qkv.device, qkv.device + 64, qkv.device + 128,
                            all.device, 192, 192, 64, (int)tokens, (int)tokens, 1, (int)batch, 0 };
    fc_launch_attention(nullptr, &a);
    a.q_stride = tokens * 192; /* the first row of each image */
    a.queries = 1;
    a.out = one.device;
    fc_launch_attention(nullptr, &a);
    all.download();
    one.download();
    for (size_t b = 0; b < batch; b++)
        if (memcmp(&all.at(b * tokens, 0), &one.at(b, 0), 64 * sizeof(T)))
            fail("the query of image %zu alone has other bits", b);
}

static void a_query_alone_has_the_same_bits()
{
    compare_pooled<bf16>();
    compare_pooled<f16>();
    compare_pooled<float>();
}

const Test attention_tests[] = {
    { "attention_equals_the_formula_in_bf16", attention_equals_the_formula_in_bf16 },
    { "attention_equals_the_formula_in_f16", attention_equals_the_formula_in_f16 },
    { "attention_equals_the_formula_in_f32", attention_equals_the_formula_in_f32 },
    { "a_query_alone_has_the_same_bits", a_query_alone_has_the_same_bits },
    { nullptr, nullptr },
};
