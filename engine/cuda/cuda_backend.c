/* Each operation is one launch; the patch embedding is two. */
#include "engine/cuda/cuda_backend.h"

#include "engine/cuda/cuda_tiles.h"
#include "engine/cuda/cuda_weights.h"

static void *start_of(fc_rows rows)
{
    return (char *)rows.data + rows.first * rows.bytes;
}

static void patch_embed(fc_backend *be, const fc_workspace *ws, const fc_tower *tower,
                        const void *pixels, fc_pixel_type type, int batch)
{
    const fc_cuda_backend *cuda = (const fc_cuda_backend *)be;
    const fc_linear *w = type == FC_PIXELS_U8 ? &tower->patch_bytes : &tower->patch;
    const fc_cuda_patch_embed embed = {
        .number = cuda->number, .pixels = pixels, .floats = type == FC_PIXELS_F32,
        .weight = w->weight, .bias = w->bias, .x = start_of(ws->x), .x_stride = ws->x.stride,
        .image_size = tower->image_size, .patch_size = tower->patch_size, .batch = batch,
        .width = tower->width, .k = fc_cuda_patch_depth(tower),
    };
    fc_launch_patch_embed(cuda->stream, &embed);
    fc_launch_tokens(cuda->stream, start_of(ws->x), ws->x.stride, tower->class_token,
                     tower->position, tower->ln_pre.gain, tower->ln_pre.bias, batch, tower->seq,
                     tower->width);
}

static void layernorm(fc_backend *be, fc_rows out, fc_rows in, const fc_norm *w, int rows,
                      int width)
{
    const fc_cuda_backend *cuda = (const fc_cuda_backend *)be;
    fc_launch_layernorm(cuda->stream, cuda->number, start_of(out), out.stride, start_of(in),
                        in.stride, w->gain, w->bias, rows, width);
}

static fc_gemm_epilogue gemm_epilogue(fc_epilogue epilogue)
{
    switch (epilogue) {
    case FC_BIAS_QUICK_GELU: return FC_GEMM_BIAS_QUICK_GELU;
    case FC_BIAS_GELU: return FC_GEMM_BIAS_GELU;
    case FC_BIAS_RESIDUAL: return FC_GEMM_BIAS_RESIDUAL;
    case FC_PLAIN: /* has no bias: NULL adds nothing */
    case FC_BIAS: break;
    }
    return FC_GEMM_BIAS;
}

static void linear(fc_backend *be, fc_rows out, fc_rows in, const fc_linear *w, int rows,
                   fc_epilogue epilogue)
{
    const fc_cuda_backend *cuda = (const fc_cuda_backend *)be;
    const fc_gemm gemm = {
        .number = cuda->number, .epilogue = gemm_epilogue(epilogue),
        .tile = cuda->forced_tile >= 0 ? (fc_gemm_tile)cuda->forced_tile
                                       : fc_cuda_tile(rows, w->out, cuda->multiprocessors),
        .x = start_of(in), .weight = w->weight, .bias = w->bias, .out = start_of(out),
        .x_stride = in.stride, .out_stride = out.stride, .rows = rows, .columns = w->out,
        .k = w->in,
    };
    if (cuda->cublaslt)
        fc_cublaslt_gemm(cuda->cublaslt, &gemm);
    else
        fc_launch_gemm(cuda->stream, &gemm);
}

static void attention(fc_backend *be, fc_rows out, fc_rows q, fc_rows k, fc_rows v,
                      const fc_tower *tower, int queries, int batch)
{
    const fc_cuda_backend *cuda = (const fc_cuda_backend *)be;
    const fc_cuda_attention a = {
        .number = cuda->number, .q = start_of(q), .k = start_of(k), .v = start_of(v),
        .out = start_of(out), .q_stride = q.stride, .kv_stride = k.stride,
        .out_stride = out.stride, .queries = queries, .tokens = tower->seq, .heads = tower->heads,
        .batch = batch,
    };
    fc_launch_attention(cuda->stream, &a);
}

static void gather_rows(fc_backend *be, fc_rows out, fc_rows in, int step, int rows, int width)
{
    const fc_cuda_backend *cuda = (const fc_cuda_backend *)be;
    fc_launch_gather(cuda->stream, start_of(out), out.stride * out.bytes, start_of(in),
                     in.stride * in.bytes, step, rows, (size_t)width * in.bytes);
}

static void head(fc_backend *be, const fc_workspace *ws, const fc_tower *tower, int batch,
                 int normalize)
{
    const fc_cuda_backend *cuda = (const fc_cuda_backend *)be;
    const fc_cuda_head h = {
        .number = cuda->number, .out = start_of(ws->embed), .in = start_of(ws->pooled),
        .in_stride = ws->pooled.stride, .gain = tower->ln_post.gain, .bias = tower->ln_post.bias,
        .weight = tower->proj.weight, .batch = batch, .width = tower->width,
        .embed = tower->embed, .normalize = normalize,
    };
    fc_launch_head(cuda->stream, &h);
}

static const fc_backend_ops cuda_ops = {
    patch_embed, layernorm, linear, attention, gather_rows, head,
};

void fc_cuda_backend_init(fc_cuda_backend *be, fc_cuda_stream stream, fc_number number,
                          int multiprocessors)
{
    *be = (fc_cuda_backend){ { &cuda_ops }, stream, number, multiprocessors, -1,
                             NULL };
}
