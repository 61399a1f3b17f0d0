/* Patch embedding: pixels become rows of patches, a linear layer projects them, and the class
 * token, the position embedding and ln_pre finish the residual stream. */
#include "engine/cpu/cpu_backend.h"

typedef struct {
    const fc_cpu_kernels *kernels;
    const fc_workspace *ws;
    const fc_tower *tower;
    const void *pixels;
    fc_pixel_type type;
} embed_job;

/* One patch, channel by channel, from uint8 [S, S, 3]: normalised by table. */
static void patch_from_u8(const fc_tower *tower, const uint8_t *image, int top, int left,
                          float *out)
{
    const int side = tower->patch_size, size = tower->image_size;
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < side; y++) {
            const uint8_t *row = image + ((size_t)(top + y) * (size_t)size + (size_t)left) * 3 + c;
            for (int x = 0; x < side; x++)
                *out++ = tower->pixel[c][row[3 * x]];
        }
}

/* The same from float32 [3, S, S], which the caller has normalised. */
static void patch_from_f32(const fc_tower *tower, const float *image, int top, int left, float *out)
{
    const int side = tower->patch_size;
    const size_t size = (size_t)tower->image_size;
    for (size_t c = 0; c < 3; c++)
        for (int y = 0; y < side; y++) {
            const float *row = image + (c * size + (size_t)(top + y)) * size + left;
            for (int x = 0; x < side; x++)
                *out++ = row[x];
        }
}

static void cut_patches(void *context, int image, int worker)
{
    (void)worker;
    const embed_job *job = context;
    const fc_tower *tower = job->tower;
    const int side = tower->patch_size, grid = tower->image_size / side;
    const size_t values = (size_t)image * 3 * (size_t)tower->image_size * (size_t)tower->image_size;
    const size_t first = (size_t)image * (size_t)(grid * grid);

    for (int p = 0; p < grid * grid; p++) {
        const int top = p / grid * side, left = p % grid * side;
        float *out = fc_row(job->ws->patches, first + (size_t)p);
        if (job->type == FC_PIXELS_U8)
            patch_from_u8(tower, (const uint8_t *)job->pixels + values, top, left, out);
        else
            patch_from_f32(tower, (const float *)job->pixels + values, top, left, out);
    }
}

static void add_row(int width, const float *a, const float *b, float *out)
{
    for (int i = 0; i < width; i++)
        out[i] = a[i] + b[i];
}

/* Projected patches of one image, in ws->h [batch * (seq - 1), width] -> its rows of ws->x. */
static void assemble(void *context, int image, int worker)
{
    (void)worker;
    const embed_job *job = context;
    const fc_tower *tower = job->tower;
    const int width = tower->width;
    const size_t seq = (size_t)tower->seq, first = (size_t)image * seq;
    const fc_rows x = job->ws->x;

    add_row(width, tower->class_token, tower->position, fc_row(x, first));
    for (size_t p = 0; p + 1 < seq; p++)
        add_row(width, fc_row(job->ws->h, (size_t)image * (seq - 1) + p),
                tower->position + (p + 1) * (size_t)width, fc_row(x, first + 1 + p));
    job->kernels->layernorm((int)seq, width, fc_row(x, first), x.stride, tower->ln_pre.gain,
                            tower->ln_pre.bias, fc_row(x, first), x.stride);
}

void fc_cpu_patch_embed(fc_backend *be, const fc_workspace *ws, const fc_tower *tower,
                        const void *pixels, fc_pixel_type type, int batch)
{
    const fc_cpu_backend *cpu = (const fc_cpu_backend *)be;
    embed_job job = { cpu->kernels, ws, tower, pixels, type };

    fc_pool_run(cpu->pool, cut_patches, &job, batch);
    fc_cpu_linear(be, ws->h, ws->patches, &tower->patch, batch * (tower->seq - 1), FC_PLAIN);
    fc_pool_run(cpu->pool, assemble, &job, batch);
}
