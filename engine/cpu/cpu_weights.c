/* From the tensors of a model file to what the CPU kernels stream: linear weights in panels
 * [out / panel][in][panel], everything else as it is, padded with zeros to whole panels. */
#include "engine/cpu/cpu_weights.h"

#include <stdlib.h>
#include <string.h>

#include "engine/tower_weights.h"

/* -- Placing ---------------------------------------------------------------------------------- */

typedef struct {
    fc_arena *arena;
    int panel;
} placing;

static size_t padded(int count, int panel)
{
    return ((size_t)count + (size_t)panel - 1) / (size_t)panel * (size_t)panel;
}

static void *place(void *context, const fc_weight *w, void *at)
{
    (void)at;
    const placing *p = context;
    return fc_arena_take(p->arena, w->tensor, padded(w->out, p->panel) * (size_t)w->in,
                         sizeof(float));
}

void fc_cpu_weights_layout(fc_tower *tower, fc_arena *arena, const fc_cpu_kernels *kernels)
{
    placing p = { arena, kernels->panel };
    arena->kind = FLATCLIP_REGION_WEIGHTS;
    fc_tower_each_weight(tower, sizeof(float), place, &p);
}

/* -- Filling ---------------------------------------------------------------------------------- */

/* One tensor, and which tasks are its: one a panel for OUT_BY_IN, else one. */
typedef struct {
    const fc_tensor *tensor;
    fc_weight_form form;
    int in, out;
    float *place;
    int first_task, tasks;
} filling;

typedef struct {
    const fc_safetensors *file;
    int panel, count, tasks;
    filling *list;
    size_t staging_floats;
    float *staging;             /* [threads, staging_floats] */
    flatclip_error *failed;     /* one a worker */
} filler;

static void *add_filling(void *context, const fc_weight *w, void *at)
{
    filler *f = context;
    const size_t panel = (size_t)f->panel;
    const int tasks = w->form == FC_WEIGHT_OUT_BY_IN ? (int)(padded(w->out, f->panel) / panel) : 1;
    const size_t row = w->form == FC_WEIGHT_IN_BY_OUT ? (size_t)w->out : (size_t)w->in * panel;
    if (f->list)
        f->list[f->count] = (filling){ fc_safetensors_find(f->file, w->tensor), w->form, w->in,
                                       w->out, at, f->tasks, tasks };
    f->count++;
    f->tasks += tasks;
    f->staging_floats = row > f->staging_floats ? row : f->staging_floats;
    return at;
}

/* rows [count, in] -> panel [in][width]; columns from count on become zero. Eight rows at a time,
 * because more rows of a multiple of 4 KiB would fall out of the cache before they are used up. */
static void pack_panel(const float *rows, int count, int in, int width, float *panel)
{
    enum { GROUP = 8, STEP = 16 };
    for (int k = 0; k < in; k += STEP)
        for (int first = 0; first < width; first += GROUP)
            for (int i = k; i < in && i < k + STEP; i++)
                for (int r = first; r < first + GROUP && r < width; r++)
                    panel[(size_t)i * (size_t)width + (size_t)r] =
                        r < count ? rows[(size_t)r * (size_t)in + (size_t)i] : 0.0f;
}

static flatclip_status fill_vector(const filler *f, const filling *w, flatclip_error *err)
{
    const size_t whole = padded(w->out, f->panel);
    memset(w->place + w->out, 0, (whole - (size_t)w->out) * sizeof(float));
    return fc_safetensors_read_f32(f->file, w->tensor, 0, (uint64_t)w->out, w->place, err);
}

static flatclip_status fill_panel(const filler *f, const filling *w, int panel, float *staging,
                                  flatclip_error *err)
{
    const int first = panel * f->panel, left = w->out - first;
    const int count = left < f->panel ? left : f->panel;
    FC_TRY(fc_safetensors_read_f32(f->file, w->tensor, (uint64_t)first * (uint64_t)w->in,
                                   (uint64_t)count * (uint64_t)w->in, staging, err));
    pack_panel(staging, count, w->in, f->panel,
               w->place + (size_t)first * (size_t)w->in);
    return FLATCLIP_OK;
}

static flatclip_status fill_columns(const filler *f, const filling *w, float *staging,
                                    flatclip_error *err)
{
    const size_t panel = (size_t)f->panel, out = (size_t)w->out, whole = padded(w->out, f->panel);
    for (size_t i = 0; i < (size_t)w->in; i++) {
        FC_TRY(fc_safetensors_read_f32(f->file, w->tensor, i * out, out, staging, err));
        for (size_t c = 0; c < whole; c++)
            w->place[c / panel * panel * (size_t)w->in + i * panel + c % panel] =
                c < out ? staging[c] : 0.0f;
    }
    return FLATCLIP_OK;
}

static void fill_task(void *context, int task, int worker)
{
    const filler *f = context;
    flatclip_error *failed = &f->failed[worker];
    if (failed->status != FLATCLIP_OK)
        return;
    const filling *w = f->list;
    while (task >= w->first_task + w->tasks)
        w++;
    float *staging = f->staging + (size_t)worker * f->staging_floats;
    switch (w->form) {
    case FC_WEIGHT_VECTOR: fill_vector(f, w, failed); break;
    case FC_WEIGHT_OUT_BY_IN: fill_panel(f, w, task - w->first_task, staging, failed); break;
    case FC_WEIGHT_IN_BY_OUT: fill_columns(f, w, staging, failed); break;
    }
}

static flatclip_status fill_with(filler *f, int threads, flatclip_error *err)
{
    fc_pool *pool;
    FC_TRY(fc_pool_create(threads, &pool, err));
    fc_pool_run(pool, fill_task, f, f->tasks);
    fc_pool_free(pool);
    for (int i = 0; i < threads; i++)
        if (f->failed[i].status != FLATCLIP_OK)
            return fc_fail(err, f->failed[i].status, "%s", f->failed[i].message);
    return FLATCLIP_OK;
}

flatclip_status fc_cpu_weights_fill(fc_tower *tower, const fc_cpu_kernels *kernels,
                                    const fc_safetensors *file, int threads, flatclip_error *err)
{
    filler f = { file, kernels->panel, 0, 0, NULL, 0, NULL, NULL };
    fc_tower_each_weight(tower, sizeof(float), add_filling, &f); /* counts */

    f.list = calloc((size_t)f.count, sizeof *f.list);
    f.staging = malloc((size_t)threads * f.staging_floats * sizeof(float));
    f.failed = calloc((size_t)threads, sizeof *f.failed);
    f.count = f.tasks = 0;
    flatclip_status status = FLATCLIP_ERR_MEMORY;
    if (f.list && f.staging && f.failed) {
        fc_tower_each_weight(tower, sizeof(float), add_filling, &f);
        status = fill_with(&f, threads, err);
    } else {
        fc_fail(err, status, "no memory to read %s", fc_safetensors_path(file));
    }
    free(f.failed);
    free(f.staging);
    free(f.list);
    return status;
}
