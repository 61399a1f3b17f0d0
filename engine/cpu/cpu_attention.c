/* Attention, one head of one image a task: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
 *
 * Both products are the tile of the linear layers. The keys are copied once into panels, as if they
 * were weights; the values already lie as the tile wants them, 64 columns a head. The scores of one
 * tile of queries never leave the first-level cache (577 tokens: 34 KiB). */
#include "engine/cpu/cpu_backend.h"

typedef struct {
    const fc_cpu_kernels *kernels;
    const fc_cpu_scratch *scratch;
    fc_rows out, q, k, v;
    float scale;
    int heads, seq, queries;
} attention_job;

int fc_cpu_padded_keys(const fc_cpu_kernels *kernels, int seq)
{
    return (seq + kernels->panel - 1) / kernels->panel * kernels->panel;
}

/* Rows of keys -> panels [padded / panel][64][panel]; columns beyond the last key become zero. */
static void pack_keys(const fc_cpu_kernels *kernels, const float *keys, size_t stride, int seq,
                      float *panels)
{
    const int panel = kernels->panel;
    for (int first = 0; first < seq; first += panel, panels += FC_HEAD_DIM * panel) {
        const int count = seq - first < panel ? seq - first : panel;
        for (int column = 0; column < panel; column++) {
            const float *key = keys + (size_t)(first + column) * stride;
            for (int d = 0; d < FC_HEAD_DIM; d++)
                panels[d * panel + column] = column < count ? key[d] : 0.0f;
        }
    }
}

/* Scores of a few query rows against all keys. */
static void score(const attention_job *job, const float *q, int rows, const fc_cpu_scratch *scratch,
                  int padded)
{
    const fc_cpu_kernels *k = job->kernels;
    float sums[FC_MAX_TILE_ROWS * FC_MAX_PANEL];
    for (int column = 0; column < padded; column += k->panel) {
        k->tile(rows, FC_HEAD_DIM, q, job->q.stride,
                scratch->keys + (size_t)column * FC_HEAD_DIM, (size_t)k->panel, sums, NULL);
        k->finish(FC_PLAIN, rows, k->panel, sums, NULL, scratch->scores + column, (size_t)padded);
    }
}

/* Weighted sums of the values for a few query rows. */
static void weigh(const attention_job *job, const float *v, int rows, const fc_cpu_scratch *scratch,
                  int padded, float *out)
{
    const fc_cpu_kernels *k = job->kernels;
    float sums[FC_MAX_TILE_ROWS * FC_MAX_PANEL];
    for (int column = 0; column < FC_HEAD_DIM; column += k->panel) {
        k->tile(rows, job->seq, scratch->scores, (size_t)padded, v + column, job->v.stride, sums,
                NULL);
        k->finish(FC_PLAIN, rows, k->panel, sums, NULL, out + column, job->out.stride);
    }
}

static void attention_task(void *context, int task, int worker)
{
    const attention_job *job = context;
    const fc_cpu_kernels *k = job->kernels;
    const fc_cpu_scratch *scratch = &job->scratch[worker];
    const size_t image = (size_t)(task / job->heads);
    const size_t column = (size_t)(task % job->heads) * FC_HEAD_DIM;
    const size_t first_key = image * (size_t)job->seq;
    const int padded = fc_cpu_padded_keys(k, job->seq);
    const int tiles = (job->queries + k->tile_rows - 1) / k->tile_rows;

    pack_keys(k, fc_row(job->k, first_key) + column, job->k.stride, job->seq, scratch->keys);
    size_t row = image * (size_t)job->queries;
    for (int t = 0; t < tiles; t++) {
        const int rows = job->queries / tiles + (t < job->queries % tiles);
        score(job, fc_row(job->q, row) + column, rows, scratch, padded);
        k->softmax(rows, job->seq, padded, job->scale, scratch->scores, (size_t)padded);
        weigh(job, fc_row(job->v, first_key) + column, rows, scratch, padded,
              fc_row(job->out, row) + column);
        row += (size_t)rows;
    }
}

void fc_cpu_attention(fc_backend *be, fc_rows out, fc_rows q, fc_rows k, fc_rows v,
                      const fc_tower *tower, int queries, int batch)
{
    const fc_cpu_backend *cpu = (const fc_cpu_backend *)be;
    attention_job job = { cpu->kernels, cpu->scratch, out, q, k, v, tower->scale,
                          tower->heads, tower->seq, queries };
    fc_pool_run(cpu->pool, attention_task, &job, batch * tower->heads);
}
