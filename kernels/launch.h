/* Launchers of the CUDA kernels: all that the engine's host code sees of them, in plain C.
 *
 * Every launcher queues one kernel on a stream and returns at once; like any launch it reports
 * failure through cudaGetLastError. None allocates, and none needs more than 48 KiB of shared
 * memory, so that no kernel has to be configured before. All pointers are device memory and begin
 * at a multiple of 16 bytes, as does every row: strides are in elements and multiples of 8.
 *
 * Numbers. The residual stream is float32. What goes into a matrix product is of the type that the
 * model computes in (fc_number): activations and weights alike; sums are float32. Biases, gains and
 * embeddings of positions are float32.
 *
 * The same bits. K is summed in ascending steps of 16 into one accumulator, whatever the tile; each
 * row is reduced in one fixed order. So neither tile nor batch nor position changes a bit. */
#ifndef FC_LAUNCH_H
#define FC_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *fc_cuda_stream; /* cudaStream_t, without its header */

typedef enum { FC_NUMBER_F32, FC_NUMBER_BF16, FC_NUMBER_F16 } fc_number;

enum {
    FC_CUDA_HEAD_DIM = 64,
    FC_CUDA_MAX_TOKENS = 80,    /* keys that attention holds in one tile; CLIP's text has 77 */
    FC_CUDA_MAX_WIDTH = 2048,   /* of a row that LayerNorm holds in registers */
    FC_CUDA_K_STEP = 32         /* the K of a product must be a multiple of it */
};

/* -- Rows ------------------------------------------------------------------------------------- */

/* out = (in - mean) / sqrt(variance + 1e-5) * gain + bias, for each row of width numbers
 * (Ba et al., 2016), in one pass: a row lies in the registers of one warp. in is float32, out of
 * the type number; width is a multiple of 4. */
void fc_launch_layernorm(fc_cuda_stream stream, fc_number number, void *out, size_t out_stride,
                         const float *in, size_t in_stride, const float *gain, const float *bias,
                         int rows, int width);

/* out row r = in row r * step. A row has bytes bytes, a multiple of 16; strides are in bytes. */
void fc_launch_gather(fc_cuda_stream stream, void *out, size_t out_stride, const void *in,
                      size_t in_stride, int step, int rows, size_t bytes);

/* -- Matrix products -------------------------------------------------------------------------- */

typedef enum {
    FC_GEMM_BIAS,               /* out = x W^T + bias */
    FC_GEMM_BIAS_QUICK_GELU,    /* v sigmoid(1.702 v) of that */
    FC_GEMM_BIAS_GELU,          /* v Phi(v) of that, exact */
    FC_GEMM_BIAS_RESIDUAL       /* out += x W^T + bias, where out is float32 */
} fc_gemm_epilogue;

/* Tiles of the tensor-core product, rows x columns. Any of them gives the same bits. */
typedef enum {
    FC_TILE_64x32,              /* for a few rows: many small blocks stream the weights */
    FC_TILE_64x64,
    FC_TILE_128x64,
    FC_TILE_128x128,
    FC_TILE_COUNT
} fc_gemm_tile;

/* One product: x [rows, k] and weight [columns, k] in the type number, weight without gaps; out
 * [rows, columns] in number, or float32 for FC_GEMM_BIAS_RESIDUAL; bias [columns], or NULL for
 * none. columns is even. The tile is ignored for FC_NUMBER_F32, which uses no tensor cores. */
typedef struct {
    fc_number number;
    fc_gemm_epilogue epilogue;
    fc_gemm_tile tile;
    const void *x, *weight;
    const float *bias;
    void *out;
    size_t x_stride, out_stride;
    int rows, columns, k;
} fc_gemm;

void fc_launch_gemm(fc_cuda_stream stream, const fc_gemm *gemm);

/* The epilogue alone, on rows out = x W^T of another library's product, in place: bias and
 * activation, for 16-bit numbers; nothing for FC_GEMM_BIAS_RESIDUAL. columns is at most 2^24. */
void fc_launch_finish(fc_cuda_stream stream, const fc_gemm *gemm);

/* -- Attention -------------------------------------------------------------------------------- */

/* softmax(q k^T / 8) v for every head and image; heads lie side by side in the columns, 64 wide.
 * q and out have queries rows an image, k and v tokens rows, at most FC_CUDA_MAX_TOKENS. causal: a
 * query sees keys up to its own place (then queries = tokens). Scores and softmax stay in
 * registers. */
typedef struct {
    fc_number number;
    const void *q, *k, *v;
    void *out;
    size_t q_stride, kv_stride, out_stride;
    int queries, tokens, heads, batch, causal;
} fc_cuda_attention;

void fc_launch_attention(fc_cuda_stream stream, const fc_cuda_attention *attention);

/* -- Both ends of the image tower ------------------------------------------------------------- */

/* Patch embedding as an implicit matrix product straight from pixels: row r of patches is gathered
 * while it is multiplied. Writes row (image * tokens + 1 + patch) of x [batch * tokens, width],
 * float32; fc_launch_tokens must follow. k is 3 patch^2, rounded up to FC_CUDA_K_STEP with zero
 * weights.
 *
 * Of uint8 pixels [batch, S, S, 3], weight columns are in the order (row, column, channel), and
 * normalisation is folded into them: with s = 256 / (255 std_c), weight = s w and bias = -(sum of
 * w mean_c / std_c); the product is divided by 256 again. (Without that factor folded weights of
 * about 3e-4 would be near the subnormals of half precision; a byte itself is exact in it.)
 * Of float32 pixels [batch, 3, S, S], which the caller has normalised, columns are in the order
 * (channel, row, column) of the model file, and bias is NULL. */
typedef struct {
    fc_number number;
    const void *pixels;
    int floats;                 /* nonzero: float32 pixels */
    const void *weight;         /* [width, k] */
    const float *bias;          /* [width], or NULL */
    float *x;
    size_t x_stride;
    int image_size, patch_size, batch, width, k;
} fc_cuda_patch_embed;

void fc_launch_patch_embed(fc_cuda_stream stream, const fc_cuda_patch_embed *embed);

/* x = LayerNorm([class token; patches] + position), in place on x [batch * tokens, width]. */
void fc_launch_tokens(fc_cuda_stream stream, float *x, size_t x_stride, const float *class_token,
                      const float *position, const float *gain, const float *bias, int batch,
                      int tokens, int width);

/* The head: out = unit(LayerNorm(in) W^T), for in [batch, width] float32, weight [embed, width] in
 * number, out [batch, embed] float32 without gaps. A row without a direction becomes NaN.
 * normalize 0 leaves out the last step. embed is at most FC_CUDA_MAX_WIDTH. */
typedef struct {
    fc_number number;
    float *out;
    const float *in;
    size_t in_stride;
    const float *gain, *bias;
    const void *weight;
    int batch, width, embed, normalize;
} fc_cuda_head;

void fc_launch_head(fc_cuda_stream stream, const fc_cuda_head *head);

#ifdef __cplusplus
}
#endif
#endif
