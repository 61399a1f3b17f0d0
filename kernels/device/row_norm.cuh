/* LayerNorm of a row that lies in the registers of one warp: lane l holds the numbers 128 v + 4 l
 * to 128 v + 4 l + 3 in row[v]. */
#ifndef FC_ROW_NORM_CUH
#define FC_ROW_NORM_CUH

#include "kernels/device/device.cuh"

/* VECTORS is how many float4 a lane holds: the smallest with 128 VECTORS >= width. */
template <int VECTORS> struct warp_row {
    float4 v[VECTORS];
};

DEVICE bool holds(int vector, int width) { return 128 * vector + 4 * lane() < width; }

template <int VECTORS> DEVICE void load_row(warp_row<VECTORS> &row, const float *from, int width)
{
#pragma unroll
    for (int i = 0; i < VECTORS; i++)
        row.v[i] = holds(i, width) ? *(const float4 *)(from + 128 * i + 4 * lane())
                                   : make_float4(0, 0, 0, 0);
}

DEVICE float sum4(float4 v) { return add(add(v.x, v.y), add(v.z, v.w)); }

DEVICE float4 normalized(float4 v, float mean, float scale, float4 gain, float4 bias)
{
    return make_float4(multiply_then_add(multiply(v.x - mean, scale), gain.x, bias.x),
                       multiply_then_add(multiply(v.y - mean, scale), gain.y, bias.y),
                       multiply_then_add(multiply(v.z - mean, scale), gain.z, bias.z),
                       multiply_then_add(multiply(v.w - mean, scale), gain.w, bias.w));
}

/* row = (row - mean) / sqrt(variance + 1e-5) * gain + bias. The variance is that of the differences
 * from the mean, as float32 has no room for the difference of two large sums. */
template <int VECTORS>
DEVICE void normalize_row(warp_row<VECTORS> &row, const float *gain, const float *bias, int width)
{
    const float inverse_width = reciprocal((float)width);
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < VECTORS; i++)
        sum = add(sum, sum4(row.v[i]));
    const float mean = multiply(warp_sum(sum), inverse_width);
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        if (!holds(i, width))
            continue;
        const float x = row.v[i].x - mean, y = row.v[i].y - mean;
        const float z = row.v[i].z - mean, w = row.v[i].w - mean;
        squares = add(squares, add(add(multiply(x, x), multiply(y, y)),
                                   add(multiply(z, z), multiply(w, w))));
    }
    const float scale = inverse_root(add(multiply(warp_sum(squares), inverse_width), 1e-5f));
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        const int at = 128 * i + 4 * lane();
        if (holds(i, width))
            row.v[i] = normalized(row.v[i], mean, scale, *(const float4 *)(gain + at),
                                  *(const float4 *)(bias + at));
    }
}

DEVICE void store4(float *to, float4 v) { *(float4 *)to = v; }
template <class T> DEVICE void store4(T *to, float4 v)
{
    *(uint2 *)to = make_uint2(pack<T>(v.x, v.y), pack<T>(v.z, v.w));
}

template <int VECTORS, class T>
DEVICE void store_row(const warp_row<VECTORS> &row, T *to, int width)
{
#pragma unroll
    for (int i = 0; i < VECTORS; i++)
        if (holds(i, width))
            store4(to + 128 * i + 4 * lane(), row.v[i]);
}

/* Calls launch.operator()<VECTORS>() with the smallest size that holds width. */
template <class F> static void choose_vectors(int width, F launch)
{
    if (width <= 128)
        launch.template run<1>();
    else if (width <= 512)
        launch.template run<4>();
    else if (width <= 768)
        launch.template run<6>();
    else if (width <= 1024)
        launch.template run<8>();
    else
        launch.template run<16>();
}

#endif
