/* Every activation buffer, with its shape. */
#include "engine/workspace.h"

/* Elements from one row to the next. Rows of a multiple of 4 KiB would all fall into the same few
 * cache sets, and a tile reads 14 rows at once: such rows are moved apart by a cache line. */
static size_t row_stride(size_t width)
{
    return width % 1024 ? width : width + 16;
}

static fc_rows take_rows(fc_arena *arena, const char *name, size_t rows, size_t width)
{
    const size_t stride = row_stride(width);
    return (fc_rows){ fc_arena_take(arena, name, rows * stride, sizeof(float)), 0, stride };
}

void fc_workspace_layout(fc_workspace *ws, fc_arena *arena, const fc_tower *tower, int batch)
{
    const size_t images = (size_t)batch, rows = images * (size_t)tower->seq;
    const size_t width = (size_t)tower->width, patch = (size_t)tower->patch.in;

    arena->kind = FLATCLIP_REGION_ACTIVATIONS;
    ws->x = take_rows(arena, "x", rows, width);
    ws->h = take_rows(arena, "h", rows, width);
    ws->qkv = take_rows(arena, "qkv", rows, 3 * width);

    /* The patches are gone before the first MLP: one region, as wide as the wider of the two. */
    const size_t wide = row_stride(4 * width) > row_stride(patch) ? 4 * width : patch;
    ws->mlp = take_rows(arena, "mlp, patches", rows, wide);
    ws->patches = ws->mlp;
    ws->patches.stride = row_stride(patch);
    ws->mlp.stride = row_stride(4 * width);

    ws->pooled = take_rows(arena, "pooled", images, width);
    ws->pooled_h = take_rows(arena, "pooled_h", images, width);
    ws->pooled_q = take_rows(arena, "pooled_q", images, width);
    ws->embed = take_rows(arena, "embed", images, (size_t)tower->embed);
}
