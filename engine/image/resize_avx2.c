/* The resize loops on AVX2.
 *
 * A weight has 24 bits, a pixel 8, and AVX2's 32-bit multiply is slow. Its 16-bit multiply-and-add
 * of pairs does two products an instruction, so a weight is split: weight = high * 4096 + low, with
 * low in 0..4095. Sums of high and low products are kept apart and joined at the end, which is
 * exact. Packed, four weights fill 16 bytes, a "quad":
 *
 *     [h0 h1 h2 h3 l0 l1 l2 l3]            as int16
 *
 * and against it stand four pixels of one band, twice: [p0 p1 p2 p3 p0 p1 p2 p3]. One multiply-add
 * leaves [h01 h23 l01 l23].
 *
 * There is no AVX-512 form: its 512-bit shuffles, multiplies and adds share two ports where 256-bit
 * ones have three, so twice the width would save a third of this loop at best, and a JPEG takes
 * three times as long to decode as to resize (12 megapixels, 45 and 14 ms). */
#if defined(__x86_64__)
#include "engine/image/resize_kernels.h"

#include <immintrin.h>

enum { LOW_BITS = 12, QUAD = 4 };

static void pack(fc_windows *windows)
{
    const size_t count = (size_t)windows->count * (size_t)windows->room;
    for (size_t i = 0; i < count; i += QUAD) {
        const __m128i weight = _mm_loadu_si128((const __m128i *)(windows->weight + i));
        const __m128i high = _mm_srai_epi32(weight, LOW_BITS);
        const __m128i low = _mm_and_si128(weight, _mm_set1_epi32((1 << LOW_BITS) - 1));
        _mm_storeu_si128((__m128i *)(windows->weight + i), _mm_packs_epi32(high, low));
    }
}

static __m128i load(const void *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}

/* The same 16 bytes in both halves. */
static __m256i load_twice(const void *from)
{
    return _mm256_broadcastsi128_si256(load(from));
}

static __m256i load_halves(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load(low)), load(high), 1);
}

/* A shuffle that takes bytes a, b, c, d of a half into the low bytes of its words, twice. */
#define SPREAD(a, b, c, d) a, -1, b, -1, c, -1, d, -1, a, -1, b, -1, c, -1, d, -1

static __m256i multiply_add(__m256i sums, __m256i pixels, __m256i shuffle, __m256i weights)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, shuffle), weights));
}

/* Joins [high low] pairs, drops the fraction, clamps: four sums become four bytes. */
static int join(__m128i high, __m128i low)
{
    __m128i sum = _mm_add_epi32(_mm_slli_epi32(high, LOW_BITS), low);
    sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(FC_WEIGHT_HALF)), FC_WEIGHT_BITS);
    sum = _mm_packs_epi32(sum, sum);
    return _mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
}

/* pair holds [high low] sums of band 0 in its low half and band 1 in the upper, other of bands 2
 * and 3; each half as multiply_add leaves it. */
static int join_bands(__m256i pair, __m256i other)
{
    /* [h0 l0 h2 l2 | h1 l1 h3 l3] -> [h0 h2 l0 l2 | h1 h3 l1 l3] */
    const __m256i sums = _mm256_shuffle_epi32(_mm256_hadd_epi32(pair, other), 0xd8);
    const __m128i even = _mm256_castsi256_si128(sums), odd = _mm256_extracti128_si256(sums, 1);
    return join(_mm_unpacklo_epi32(even, odd), _mm_unpackhi_epi32(even, odd));
}

static void store_pixel(uint8_t *out, int value)
{
    __builtin_memcpy(out, &value, sizeof value);
}

static void along_gray(uint8_t *out, const uint8_t *row, const fc_windows *windows)
{
    const __m256i shuffle = _mm256_setr_epi8(SPREAD(0, 1, 2, 3), SPREAD(4, 5, 6, 7));
    for (int i = 0; i < windows->count; i++) {
        const uint8_t *pixel = row + windows->begin[i];
        const int32_t *weight = windows->weight + (size_t)i * windows->room;
        __m256i sums = _mm256_setzero_si256();
        for (int k = 0; k < windows->length[i]; k += 2 * QUAD)
            sums = multiply_add(sums, load_twice(pixel + k), shuffle,
                                _mm256_loadu_si256((const __m256i *)(weight + k)));
        const __m128i both =
            _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        const __m128i pairs = _mm_hadd_epi32(both, both); /* [h l h l] */
        out[i] = (uint8_t)join(pairs, _mm_srli_si128(pairs, 4));
    }
}

/* Eight pixels a round. Red and green of four pixels share a vector; blue, which would be alone,
 * takes both halves for all eight. */
static void along_rgb(uint8_t *out, const uint8_t *row, const fc_windows *windows)
{
    const __m256i red_green = _mm256_setr_epi8(SPREAD(0, 3, 6, 9), SPREAD(1, 4, 7, 10));
    const __m256i blue_blue = _mm256_setr_epi8(SPREAD(2, 5, 8, 11), SPREAD(2, 5, 8, 11));
    for (int i = 0; i < windows->count; i++, out += 3) {
        const uint8_t *pixel = row + 3 * (size_t)windows->begin[i];
        const int32_t *weight = windows->weight + (size_t)i * windows->room;
        __m256i first = _mm256_setzero_si256(), second = first, blue = first;
        for (int k = 0; k < windows->length[i];
             k += 2 * QUAD, pixel += 6 * QUAD, weight += 2 * QUAD) {
            const uint8_t *next = pixel + 3 * QUAD;
            first = multiply_add(first, load_twice(pixel), red_green, load_twice(weight));
            second = multiply_add(second, load_twice(next), red_green, load_twice(weight + QUAD));
            blue = multiply_add(blue, load_halves(pixel, next), blue_blue,
                                _mm256_loadu_si256((const __m256i *)weight));
        }
        /* Blue's halves are both band 2: add them, and leave band 3 empty. */
        const __m128i blues =
            _mm_add_epi32(_mm256_castsi256_si128(blue), _mm256_extracti128_si256(blue, 1));
        store_pixel(out,
                    join_bands(_mm256_add_epi32(first, second), _mm256_zextsi128_si256(blues)));
    }
}

static void along_four(uint8_t *out, const uint8_t *row, const fc_windows *windows)
{
    const __m256i bands_01 = _mm256_setr_epi8(SPREAD(0, 4, 8, 12), SPREAD(1, 5, 9, 13));
    const __m256i bands_23 = _mm256_setr_epi8(SPREAD(2, 6, 10, 14), SPREAD(3, 7, 11, 15));
    for (int i = 0; i < windows->count; i++, out += 4) {
        const uint8_t *pixel = row + 4 * (size_t)windows->begin[i];
        const int32_t *weight = windows->weight + (size_t)i * windows->room;
        __m256i pair = _mm256_setzero_si256(), other = pair;
        for (int k = 0; k < windows->length[i]; k += QUAD) {
            const __m256i pixels = load_twice(pixel + 4 * k), weights = load_twice(weight + k);
            pair = multiply_add(pair, pixels, bands_01, weights);
            other = multiply_add(other, pixels, bands_23, weights);
        }
        store_pixel(out, join_bands(pair, other));
    }
}

static void along(uint8_t *out, const uint8_t *row, const fc_windows *windows, int bands)
{
    if (bands == 1)
        along_gray(out, row, windows);
    else if (bands == 3)
        along_rgb(out, row, windows);
    else
        along_four(out, row, windows);
}

/* Here a weight meets 8 different values, so there are no pairs to add: the slow multiply it is. */
static void across(int32_t *sums, const uint8_t *row, int32_t weight, size_t count)
{
    const __m256i weights = _mm256_set1_epi32(weight);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m256i values = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(row + i)));
        __m256i *at = (__m256i *)(sums + i);
        const __m256i sum = _mm256_loadu_si256(at);
        _mm256_storeu_si256(at, _mm256_add_epi32(sum, _mm256_mullo_epi32(values, weights)));
    }
    for (; i < count; i++)
        sums[i] += weight * row[i];
}

static void clamp(uint8_t *out, const int32_t *sums, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i low = _mm_srai_epi32(load(sums + i), FC_WEIGHT_BITS);
        const __m128i high = _mm_srai_epi32(load(sums + i + 4), FC_WEIGHT_BITS);
        const __m128i words = _mm_packs_epi32(low, high);
        _mm_storel_epi64((__m128i *)(out + i), _mm_packus_epi16(words, words));
    }
    if (i < count)
        fc_resize_portable.clamp(out + i, sums + i, count - i);
}

const fc_resize_kernels fc_resize_avx2 = { pack, along, across, clamp };
#else
typedef int fc_no_avx2; /* ISO C wants a declaration */
#endif
