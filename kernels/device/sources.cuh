/* Where the rows of a product's left side come from: memory, or pixels that are gathered into
 * patches while they are multiplied. Each source gives 8 neighbouring numbers of a row at a time,
 * into shared memory, and single ones as float. */
#ifndef FC_SOURCES_CUH
#define FC_SOURCES_CUH

#include "kernels/device/device.cuh"

/* Rows that lie in memory in the type of the product. */
template <class T> struct row_source {
    const T *x;
    size_t stride;
    int rows;

    DEVICE_METHOD void load8(T *to, int row, int k) const
    {
        const bool present = row < rows;
        copy_async(to, x + (size_t)(present ? row : 0) * stride + (size_t)k, present);
    }
    DEVICE_METHOD float value(int row, int k) const
    {
        return row < rows ? to_float(x[(size_t)row * stride + (size_t)k]) : 0.0f;
    }
};

/* The patches of square images, row by row of the image. */
struct patch_grid {
    int image_size, patch_size, grid; /* grid: patches along a side */
    int rows;                         /* of all images */

    /* The image of a row, and the pixel with which its patch begins: y and x. */
    DEVICE_METHOD void place(int row, int &image, int &y, int &x) const
    {
        const int patch = row % (grid * grid);
        image = row / (grid * grid);
        y = patch / grid * patch_size;
        x = patch % grid * patch_size;
    }
};

/* uint8 pixels [batch, S, S, 3]; k is (row, column, channel): a row of a patch is one stretch of
 * 3 patch_size bytes. A byte is exact in every type. */
template <class T> struct byte_source {
    const uint8_t *pixels;
    patch_grid at;

    DEVICE_METHOD const uint8_t *address(int row, int k) const
    {
        const int stretch = 3 * at.patch_size;
        int image, y, x;
        at.place(row, image, y, x);
        const size_t line = (size_t)image * (size_t)at.image_size + (size_t)(y + k / stretch);
        return pixels + 3 * (line * (size_t)at.image_size + (size_t)x) + k % stretch;
    }
    DEVICE_METHOD float value(int row, int k) const
    {
        const bool present = row < at.rows && k < 3 * at.patch_size * at.patch_size;
        return present ? (float)*address(row, k) : 0.0f;
    }
    DEVICE_METHOD void load8(T *to, int row, int k) const
    {
        T numbers[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            numbers[i] = converter<T>::from(value(row, k + i));
        store8(to, numbers);
    }
};

/* float32 pixels [batch, 3, S, S]; k is (channel, row, column). */
template <class T> struct float_source {
    const float *pixels;
    patch_grid at;

    DEVICE_METHOD float value(int row, int k) const
    {
        const int area = at.patch_size * at.patch_size, channel = k / area;
        int image, y, x;
        if (row >= at.rows || k >= 3 * area)
            return 0.0f;
        at.place(row, image, y, x);
        y += k % area / at.patch_size;
        x += k % at.patch_size;
        const size_t plane = (size_t)image * 3 + (size_t)channel;
        return pixels[(plane * (size_t)at.image_size + (size_t)y) * (size_t)at.image_size +
                      (size_t)x];
    }
    DEVICE_METHOD void load8(T *to, int row, int k) const
    {
        T numbers[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            numbers[i] = converter<T>::from(value(row, k + i));
        store8(to, numbers);
    }
};

#endif
