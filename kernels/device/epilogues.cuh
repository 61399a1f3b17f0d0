/* What happens to a sum before it is stored: the same source for every tile, so that none rounds
 * differently. Each takes two neighbouring columns, n and n + 1, of row m. */
#ifndef FC_EPILOGUES_CUH
#define FC_EPILOGUES_CUH

#include "kernels/device/device.cuh"
#include "kernels/launch.h"

/* Hendrycks and Gimpel 2016, as OpenAI's CLIP approximates it: x sigmoid(1.702 x). */
DEVICE float quick_gelu(float x)
{
    return fast_divide(x, add(1.0f, fast_exp(multiply(-1.702f, x))));
}

/* x Phi(x), exact. */
DEVICE float gelu(float x)
{
    return multiply(multiply(0.5f, x), add(1.0f, erff(multiply(x, 0.70710678118654752f))));
}

template <int EPILOGUE> DEVICE float activate(float x)
{
    if (EPILOGUE == FC_GEMM_BIAS_QUICK_GELU)
        return quick_gelu(x);
    if (EPILOGUE == FC_GEMM_BIAS_GELU)
        return gelu(x);
    return x;
}

DEVICE void store2(float *to, float a, float b) { *(float2 *)to = make_float2(a, b); }
template <class T> DEVICE void store2(T *to, float a, float b) { *(uint32_t *)to = pack<T>(a, b); }

/* Bias, activation, and a row of the type of the product. */
template <class T, int EPILOGUE> struct plain_epilogue {
    T *out;
    size_t stride;
    const float *bias;

    DEVICE_METHOD void operator()(int m, int n, float a, float b) const
    {
        if (bias) {
            a = add(a, bias[n]);
            b = add(b, bias[n + 1]);
        }
        store2(out + (size_t)m * stride + (size_t)n, activate<EPILOGUE>(a),
               activate<EPILOGUE>(b));
    }
};

/* Bias, and onto the residual stream. */
struct residual_epilogue {
    float *out;
    size_t stride;
    const float *bias;

    DEVICE_METHOD void operator()(int m, int n, float a, float b) const
    {
        float2 *at = (float2 *)(out + (size_t)m * stride + (size_t)n);
        const float2 before = *at;
        if (bias) {
            a = add(a, bias[n]);
            b = add(b, bias[n + 1]);
        }
        *at = make_float2(add(before.x, a), add(before.y, b));
    }
};

/* Patches: scaled back, bias, and to the rows behind each image's class token. */
struct patch_epilogue {
    float *out;
    size_t stride;
    const float *bias;
    float scale;
    int patches;                /* of an image */

    DEVICE_METHOD void operator()(int m, int n, float a, float b) const
    {
        const size_t row = (size_t)(m + m / patches + 1);
        a = multiply(a, scale);
        b = multiply(b, scale);
        if (bias) {
            a = add(a, bias[n]);
            b = add(b, bias[n + 1]);
        }
        *(float2 *)(out + row * stride + (size_t)n) = make_float2(a, b);
    }
};

#endif
