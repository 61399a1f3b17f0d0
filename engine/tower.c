/* THE forward pass, written once over the backend's operations: Dosovitskiy et al. 2020
 * (https://arxiv.org/abs/2010.11929) as CLIP uses it (https://arxiv.org/abs/2103.00020). */
#include "engine/tower.h"

/* One pre-norm transformer block, in place on the residual stream ws->x [batch * seq, width]. */
static void run_block(fc_backend *be, const fc_block *w, const fc_tower *tower,
                      const fc_workspace *ws, int batch)
{
    const int rows = batch * tower->seq, width = tower->width;
    const size_t k = (size_t)width, v = 2 * (size_t)width;

    fc_layernorm(be, ws->h, ws->x, &w->ln_1, rows, width);
    fc_linear_rows(be, ws->qkv, ws->h, &w->qkv, rows, FC_BIAS);            /* [rows, 3 * width] */
    fc_attention(be, ws->h, ws->qkv, fc_columns(ws->qkv, k), fc_columns(ws->qkv, v), tower,
                 tower->seq, batch);                                       /* [rows, width] */
    fc_linear_rows(be, ws->x, ws->h, &w->out, rows, FC_BIAS_RESIDUAL);     /* x += ... */

    fc_layernorm(be, ws->h, ws->x, &w->ln_2, rows, width);
    fc_linear_rows(be, ws->mlp, ws->h, &w->fc1, rows, tower->activation);  /* [rows, 4 * width] */
    fc_linear_rows(be, ws->x, ws->mlp, &w->fc2, rows, FC_BIAS_RESIDUAL);   /* x += ... */
}

/* The last block. Only the class token leaves it, so keys and values are needed for every row, but
 * all the rest for one row an image: the same numbers with 7 % less work. Leaves the class rows'
 * residual stream in ws->pooled [batch, width]. */
static void run_last_block(fc_backend *be, const fc_block *w, const fc_tower *tower,
                           const fc_workspace *ws, int batch)
{
    const int rows = batch * tower->seq, width = tower->width;
    const fc_rows k = fc_columns(ws->qkv, (size_t)width), v = fc_columns(k, (size_t)width);

    fc_layernorm(be, ws->h, ws->x, &w->ln_1, rows, width);
    fc_gather_rows(be, ws->pooled, ws->x, tower->seq, batch, width);
    fc_gather_rows(be, ws->pooled_h, ws->h, tower->seq, batch, width);
    fc_linear_rows(be, ws->pooled_q, ws->pooled_h, &w->q, batch, FC_BIAS); /* [batch, width] */
    fc_linear_rows(be, k, ws->h, &w->kv, rows, FC_BIAS);                   /* [rows, 2 * width] */
    fc_attention(be, ws->pooled_h, ws->pooled_q, k, v, tower, 1, batch);
    fc_linear_rows(be, ws->pooled, ws->pooled_h, &w->out, batch, FC_BIAS_RESIDUAL);

    fc_layernorm(be, ws->pooled_h, ws->pooled, &w->ln_2, batch, width);
    fc_linear_rows(be, ws->mlp, ws->pooled_h, &w->fc1, batch, tower->activation);
    fc_linear_rows(be, ws->pooled, ws->mlp, &w->fc2, batch, FC_BIAS_RESIDUAL);
}

void fc_run_image_blocks(fc_backend *be, const fc_tower *tower, const fc_workspace *ws, int batch,
                         int normalize)
{
    int layer = 0;
    for (; layer + 1 < tower->layers; layer++)
        run_block(be, &tower->block[layer], tower, ws, batch);
    run_last_block(be, &tower->block[layer], tower, ws, batch);            /* ws->pooled */
    fc_head(be, ws, tower, batch, normalize);                              /* ws->embed */
}

void fc_run_image_tower(fc_backend *be, const fc_tower *tower, const fc_workspace *ws,
                        const void *pixels, fc_pixel_type type, int batch, int normalize)
{
    fc_patch_embed(be, ws, tower, pixels, type, batch);                    /* ws->x */
    fc_run_image_blocks(be, tower, ws, batch, normalize);
}
