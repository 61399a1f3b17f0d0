/* From the tensors of a model file to what the CPU kernels stream: linear weights in panels
 * [out / panel][in][panel], everything else as it is. One list of weights serves measuring, placing
 * and filling, so that they cannot disagree. */
#include "engine/cpu/cpu_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a tensor lies in the file, and so what becomes of it. */
typedef enum {
    VECTOR,     /* [count]: copied, padded with zeros to whole panels */
    OUT_BY_IN,  /* [out, in], as torch.nn.Linear: packed */
    IN_BY_OUT   /* [in, out], as CLIP's projections: packed */
} weight_form;

typedef void weight_visit(void *context, const char *tensor, weight_form form, int in, int out,
                          float **place);

typedef struct {
    weight_visit *visit;
    void *context;
    char prefix[64];
} visitor;

static void one(const visitor *v, const char *suffix, weight_form form, int in, int out,
                float **place)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", v->prefix, suffix);
    v->visit(v->context, name, form, in, out, place);
}

static void norm(const visitor *v, const char *name, int width, fc_norm *w)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "%s.weight", name);
    one(v, suffix, VECTOR, 1, width, &w->gain);
    snprintf(suffix, sizeof suffix, "%s.bias", name);
    one(v, suffix, VECTOR, 1, width, &w->bias);
}

static void linear(const visitor *v, const char *weight, const char *bias, weight_form form,
                   fc_linear *w)
{
    float *place = w->weight;
    one(v, weight, form, w->in, w->out, &place);
    w->weight = place;
    if (bias)
        one(v, bias, VECTOR, 1, w->out, &w->bias);
}

static void each_weight(fc_tower *tower, weight_visit *visit, void *context)
{
    visitor v = { visit, context, "visual." };
    const int width = tower->width;

    linear(&v, "conv1.weight", NULL, OUT_BY_IN, &tower->patch);
    one(&v, "class_embedding", VECTOR, 1, width, &tower->class_token);
    one(&v, "positional_embedding", VECTOR, 1, tower->seq * width, &tower->position);
    norm(&v, "ln_pre", width, &tower->ln_pre);
    for (int i = 0; i < tower->layers; i++) {
        fc_block *w = &tower->block[i];
        snprintf(v.prefix, sizeof v.prefix, "visual.transformer.resblocks.%d.", i);
        norm(&v, "ln_1", width, &w->ln_1);
        linear(&v, "attn.in_proj_weight", "attn.in_proj_bias", OUT_BY_IN, &w->qkv);
        linear(&v, "attn.out_proj.weight", "attn.out_proj.bias", OUT_BY_IN, &w->out);
        norm(&v, "ln_2", width, &w->ln_2);
        linear(&v, "mlp.c_fc.weight", "mlp.c_fc.bias", OUT_BY_IN, &w->fc1);
        linear(&v, "mlp.c_proj.weight", "mlp.c_proj.bias", OUT_BY_IN, &w->fc2);
    }
    snprintf(v.prefix, sizeof v.prefix, "visual.");
    norm(&v, "ln_post", width, &tower->ln_post);
    linear(&v, "proj", NULL, IN_BY_OUT, &tower->proj);
}

/* -- Placing ---------------------------------------------------------------------------------- */

typedef struct {
    fc_arena *arena;
    int panel;
} placing;

static size_t padded(int count, int panel)
{
    return ((size_t)count + (size_t)panel - 1) / (size_t)panel * (size_t)panel;
}

static void place(void *context, const char *tensor, weight_form form, int in, int out, float **at)
{
    (void)form;
    const placing *p = context;
    *at = fc_arena_take(p->arena, tensor, padded(out, p->panel) * (size_t)in, sizeof(float));
}

static void set_linear(fc_linear *w, int in, int out)
{
    *w = (fc_linear){ NULL, NULL, in, out };
}

/* in_proj is one layer for all blocks but the last, which wants its query part and the rest apart.
 * Widths are multiples of 64, so both start at a panel. */
static void split_in_proj(fc_block *w, int width)
{
    w->q = w->qkv;
    w->q.out = width;
    w->kv = w->qkv;
    w->kv.out = 2 * width;
    if (w->qkv.weight) {
        w->kv.weight = (float *)w->qkv.weight + (size_t)width * (size_t)width;
        w->kv.bias = w->qkv.bias + width;
    }
}

void fc_cpu_weights_layout(fc_tower *tower, fc_arena *arena, const fc_cpu_kernels *kernels)
{
    const int width = tower->width;
    placing p = { arena, kernels->panel };

    set_linear(&tower->patch, 3 * tower->patch_size * tower->patch_size, width);
    set_linear(&tower->proj, width, tower->embed);
    for (int i = 0; i < tower->layers; i++) {
        fc_block *w = &tower->block[i];
        set_linear(&w->qkv, width, 3 * width);
        set_linear(&w->out, width, width);
        set_linear(&w->fc1, width, 4 * width);
        set_linear(&w->fc2, 4 * width, width);
    }
    arena->kind = FLATCLIP_REGION_WEIGHTS;
    each_weight(tower, place, &p);
    for (int i = 0; i < tower->layers; i++)
        split_in_proj(&tower->block[i], width);
}

/* -- Filling ---------------------------------------------------------------------------------- */

/* One tensor, and which tasks are its: one a panel for OUT_BY_IN, else one. */
typedef struct {
    const fc_tensor *tensor;
    weight_form form;
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

static void add_filling(void *context, const char *tensor, weight_form form, int in, int out,
                        float **at)
{
    filler *f = context;
    const int tasks = form == OUT_BY_IN ? (int)(padded(out, f->panel) / (size_t)f->panel) : 1;
    const size_t row = form == IN_BY_OUT ? (size_t)out : (size_t)in * (size_t)f->panel;
    if (f->list)
        f->list[f->count] = (filling){ fc_safetensors_find(f->file, tensor), form, in, out, *at,
                                       f->tasks, tasks };
    f->count++;
    f->tasks += tasks;
    f->staging_floats = row > f->staging_floats ? row : f->staging_floats;
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
    case VECTOR: fill_vector(f, w, failed); break;
    case OUT_BY_IN: fill_panel(f, w, task - w->first_task, staging, failed); break;
    case IN_BY_OUT: fill_columns(f, w, staging, failed); break;
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
    each_weight(tower, add_filling, &f); /* counts */

    f.list = calloc((size_t)f.count, sizeof *f.list);
    f.staging = malloc((size_t)threads * f.staging_floats * sizeof(float));
    f.failed = calloc((size_t)threads, sizeof *f.failed);
    f.count = f.tasks = 0;
    flatclip_status status = FLATCLIP_ERR_MEMORY;
    if (f.list && f.staging && f.failed) {
        each_weight(tower, add_filling, &f);
        status = fill_with(&f, threads, err);
    } else {
        fc_fail(err, status, "no memory to read %s", fc_safetensors_path(file));
    }
    free(f.failed);
    free(f.staging);
    free(f.list);
    return status;
}
