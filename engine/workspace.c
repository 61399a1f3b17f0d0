/* Every activation buffer, with its shape. */
#include "engine/workspace.h"

/* Elements from one row to the next. Rows of a multiple of 4 KiB would all fall into the same few
 * cache sets, and a tile reads 14 rows at once: such rows are moved apart by a cache line. */
static size_t row_stride(size_t width)
{
    return width % 1024 ? width : width + 16;
}

static fc_rows take_rows(fc_arena *arena, const char *name, size_t rows, size_t width,
                         size_t bytes)
{
    const size_t stride = row_stride(width);
    return (fc_rows){ fc_arena_take(arena, name, rows * stride, bytes), 0, stride, bytes };
}

void fc_workspace_layout(fc_workspace *ws, fc_arena *arena, const fc_tower *tower,
                         const fc_workspace_form *form, int batch)
{
    const size_t images = (size_t)batch, rows = images * (size_t)tower->seq;
    const size_t width = (size_t)tower->width, hidden = 4 * width;
    const size_t patch = form->has_patches ? (size_t)tower->patch.in : 0;
    const size_t number = form->number_bytes;

    arena->kind = FLATCLIP_REGION_ACTIVATIONS;
    ws->x = take_rows(arena, "x", rows, width, sizeof(float));
    ws->h = take_rows(arena, "h", rows, width, number);
    ws->qkv = take_rows(arena, "qkv", rows, 3 * width, number);

    /* The patches are gone before the first MLP: one region, as wide as the wider of the two. */
    const size_t wide = row_stride(hidden) > row_stride(patch) ? hidden : patch;
    ws->mlp = take_rows(arena, patch ? "mlp, patches" : "mlp", rows, wide, number);
    ws->patches = ws->mlp;
    ws->patches.stride = row_stride(patch);
    ws->mlp.stride = row_stride(hidden);

    ws->pooled = take_rows(arena, "pooled", images, width, sizeof(float));
    ws->pooled_h = take_rows(arena, "pooled_h", images, width, number);
    ws->pooled_q = take_rows(arena, "pooled_q", images, width, number);
    const size_t embed = (size_t)tower->embed; /* without gaps, as it leaves */
    ws->embed = (fc_rows){ fc_arena_take(arena, "embed", images * embed, sizeof(float)), 0, embed,
                           sizeof(float) };
}
