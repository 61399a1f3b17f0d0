/* The operations that a forward pass is written in.
 *
 * A backend runs operations on rows of numbers, or queues them; where the rows lie and what their
 * numbers are (float32, or half precision on a GPU) is its own affair. Operations cannot fail here:
 * what goes wrong comes out where the session waits for the results (engine/compute.h). */
#ifndef FC_BACKEND_H
#define FC_BACKEND_H

#include "engine/base/arena.h"
#include "engine/base/clip_config.h"
#include "engine/base/pool.h"
#include "engine/cpu/cpu_kernels.h"

/* Rows of a buffer: row r begins at element first + r * stride. */
typedef struct {
    void *data;
    size_t first, stride; /* elements */
    size_t bytes;         /* of an element */
} fc_rows;

/* The same rows, from column on. */
static inline fc_rows fc_columns(fc_rows rows, size_t column)
{
    rows.first += column;
    return rows;
}

/* -- Weights ---------------------------------------------------------------------------------- */

/* y = x W^T + bias. The weights lie as the backend wants them: for the CPU in panels
 * [out / panel][in][panel], the last padded with zeros, and so is bias; for CUDA as [out, in]. */
typedef struct {
    void *weight;
    float *bias;        /* [out], or NULL */
    int in, out;
} fc_linear;

typedef struct {
    float *gain, *bias; /* [width] */
} fc_norm;

typedef struct {
    fc_norm ln_1, ln_2;
    fc_linear q, kv;    /* the two parts of in_proj: [width], [2 * width]; one stretch of memory */
    fc_linear qkv;      /* the same memory as one layer */
    fc_linear out, fc1, fc2;
} fc_block;

enum { FC_MAX_LAYERS = 64 };

typedef struct {
    int image_size, patch_size;
    int seq;                /* rows of an image: the class token and the patches */
    int width, layers, heads;
    int embed;
    fc_epilogue activation; /* FC_BIAS_QUICK_GELU or FC_BIAS_GELU */
    float scale;            /* of attention scores: 1 / sqrt(64) */
    float pixel[3][256];    /* (byte / 255 - mean) / std: all there is to normalise */

    fc_linear patch;        /* in: 3 * patch^2, channel by channel; out: width; no bias */
    fc_linear patch_bytes;  /* CUDA: the same straight from bytes, normalisation folded in */
    float *class_token;     /* [width] */
    float *position;        /* [seq, width] */
    fc_norm ln_pre, ln_post;
    fc_linear proj;         /* width -> embed, no bias */
    fc_block block[FC_MAX_LAYERS];
} fc_tower;

/* -- Working memory (workspace.c) ------------------------------------------------------------- */

typedef enum { FC_PIXELS_U8, FC_PIXELS_F32 } fc_pixel_type;

typedef struct {
    fc_rows x;          /* residual stream [batch * seq, width] */
    fc_rows h;          /* normed rows, attention's output */
    fc_rows qkv;        /* [batch * seq, 3 * width] */
    fc_rows mlp;        /* [batch * seq, 4 * width] */
    fc_rows patches;    /* [batch * (seq - 1), 3 * patch^2]; shares memory with mlp; CPU only */
    fc_rows pooled;     /* residual stream of the pooled rows [batch, width] */
    fc_rows pooled_h;   /* [batch, width] */
    fc_rows pooled_q;   /* [batch, width] */
    fc_rows embed;      /* [batch, embed] */
} fc_workspace;

/* -- Operations ------------------------------------------------------------------------------- */

typedef struct fc_backend fc_backend;

typedef struct {
    void (*patch_embed)(fc_backend *be, const fc_workspace *ws, const fc_tower *tower,
                        const void *pixels, fc_pixel_type type, int batch);
    void (*layernorm)(fc_backend *be, fc_rows out, fc_rows in, const fc_norm *w, int rows,
                      int width);
    void (*linear)(fc_backend *be, fc_rows out, fc_rows in, const fc_linear *w, int rows,
                   fc_epilogue epilogue);
    void (*attention)(fc_backend *be, fc_rows out, fc_rows q, fc_rows k, fc_rows v,
                      const fc_tower *tower, int queries, int batch);
    void (*gather_rows)(fc_backend *be, fc_rows out, fc_rows in, int step, int rows, int width);
    void (*head)(fc_backend *be, const fc_workspace *ws, const fc_tower *tower, int batch,
                 int normalize);
} fc_backend_ops;

struct fc_backend {
    const fc_backend_ops *ops;
};

/* x = ln_pre([class token; patches W^T] + position), from pixels [batch, S, S, 3] uint8 or
 * [batch, 3, S, S] float32. */
static inline void fc_patch_embed(fc_backend *be, const fc_workspace *ws, const fc_tower *tower,
                                  const void *pixels, fc_pixel_type type, int batch)
{
    be->ops->patch_embed(be, ws, tower, pixels, type, batch);
}

/* out may be in. */
static inline void fc_layernorm(fc_backend *be, fc_rows out, fc_rows in, const fc_norm *w, int rows,
                                int width)
{
    be->ops->layernorm(be, out, in, w, rows, width);
}

/* out = epilogue(in W^T), [rows, w->in] -> [rows, w->out]. out must not be in. */
static inline void fc_linear_rows(fc_backend *be, fc_rows out, fc_rows in, const fc_linear *w,
                                  int rows, fc_epilogue epilogue)
{
    be->ops->linear(be, out, in, w, rows, epilogue);
}

/* Softmax(q k^T / 8) v for every head, with queries query rows and tower->seq keys an image; heads
 * side by side in the columns. */
static inline void fc_attention(fc_backend *be, fc_rows out, fc_rows q, fc_rows k, fc_rows v,
                                const fc_tower *tower, int queries, int batch)
{
    be->ops->attention(be, out, q, k, v, tower, queries, batch);
}

/* out row r = in row r * step. */
static inline void fc_gather_rows(fc_backend *be, fc_rows out, fc_rows in, int step, int rows,
                                  int width)
{
    be->ops->gather_rows(be, out, in, step, rows, width);
}

/* ws->embed = ln_post(ws->pooled) proj, [batch, width] -> [batch, embed], and with normalize scaled
 * to length 1. A row without a direction (length 0 or not finite) becomes NaN then. */
static inline void fc_head(fc_backend *be, const fc_workspace *ws, const fc_tower *tower, int batch,
                           int normalize)
{
    be->ops->head(be, ws, tower, batch, normalize);
}

#endif
