/* Weights on the device. Normalisation is folded into a second copy of the patch embedding, which
 * then takes bytes as they are (kernels/launch.h has the formula). */
#include "engine/cuda/cuda_weights.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/half.h"
#include "engine/tower_weights.h"

static const char PATCH_TENSOR[] = "visual.conv1.weight";

fc_number fc_cuda_number(flatclip_precision precision)
{
    return precision == FLATCLIP_PRECISION_F16 ? FC_NUMBER_F16
           : precision == FLATCLIP_PRECISION_BF16 ? FC_NUMBER_BF16 : FC_NUMBER_F32;
}

size_t fc_cuda_number_bytes(fc_number number)
{
    return number == FC_NUMBER_F32 ? sizeof(float) : sizeof(uint16_t);
}

static int padded_depth(int in)
{
    return (in + FC_CUDA_K_STEP - 1) / FC_CUDA_K_STEP * FC_CUDA_K_STEP;
}

int fc_cuda_patch_depth(const fc_tower *tower)
{
    return padded_depth(tower->patch.in);
}

/* -- Placing ---------------------------------------------------------------------------------- */

typedef struct {
    fc_arena *arena;
    size_t number_bytes;
} placing;

static void *place(void *context, const fc_weight *w, void *at)
{
    (void)at;
    const placing *p = context;
    const int is_vector = w->form == FC_WEIGHT_VECTOR;
    const size_t depth = is_vector ? 1 : (size_t)padded_depth(w->in);
    return fc_arena_take(p->arena, w->tensor, depth * (size_t)w->out,
                         is_vector ? sizeof(float) : p->number_bytes);
}

void fc_cuda_weights_layout(flatclip_model *model, fc_arena *arena)
{
    fc_tower *tower = &model->tower;
    placing p = { arena, fc_cuda_number_bytes(fc_cuda_number(model->precision)) };
    const size_t width = (size_t)tower->width;

    arena->kind = FLATCLIP_REGION_WEIGHTS;
    arena->place = FLATCLIP_PLACE_DEVICE;
    fc_tower_each_weight(tower, p.number_bytes, place, &p);
    tower->patch_bytes.weight =
        fc_arena_take(arena, "visual.conv1.weight, for bytes",
                      (size_t)fc_cuda_patch_depth(tower) * width, p.number_bytes);
    tower->patch_bytes.bias =
        fc_arena_take(arena, "visual.conv1, bias for bytes", width, sizeof(float));
}

/* -- Filling ---------------------------------------------------------------------------------- */

typedef struct {
    const fc_safetensors *file;
    fc_number number;
    float *values;          /* a whole tensor, as it is to lie on the device */
    void *numbers;          /* the same in the model's type */
    size_t most;            /* values in the largest tensor */
    flatclip_error *err;
    flatclip_status status; /* of the first failure */
} filler;

static void *measure(void *context, const fc_weight *w, void *at)
{
    filler *f = context;
    const size_t values = (size_t)padded_depth(w->in) * (size_t)w->out;
    f->most = values > f->most ? values : f->most;
    return at;
}

static flatclip_status upload(const filler *f, void *to, const void *from, size_t bytes)
{
    return fc_cuda_check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy of "
                         "weights", f->err);
}

/* The first count of values, in the model's type, to the device. */
static flatclip_status upload_numbers(const filler *f, const char *tensor, void *to, size_t count)
{
    if (f->number == FC_NUMBER_F32)
        return upload(f, to, f->values, count * sizeof(float));
    if (f->number == FC_NUMBER_BF16) {
        fc_floats_to_bf16s(f->values, count, f->numbers);
    } else {
        for (size_t i = 0; i < count; i++)
            if (!(fabsf(f->values[i]) < 65520.0f)) /* where rounding to f16 gives infinity */
                return fc_fail(f->err, FLATCLIP_ERR_FORMAT, "%.200s: tensor %.60s has values that "
                               "f16 cannot hold; use precision bf16 or f32",
                               fc_safetensors_path(f->file), tensor);
        fc_floats_to_halves(f->values, count, f->numbers);
    }
    return upload(f, to, f->numbers, count * sizeof(uint16_t));
}

/* Reads rows of in values and leaves depth - in zeros behind each. */
static flatclip_status read_rows(const filler *f, const fc_weight *w, int depth)
{
    const fc_tensor *tensor = fc_safetensors_find(f->file, w->tensor);
    const size_t in = (size_t)w->in, wide = (size_t)depth, out = (size_t)w->out;
    FC_TRY(fc_safetensors_read_f32(f->file, tensor, 0, in * out, f->values, f->err));
    for (size_t row = wide > in ? out : 0; row-- > 0;) { /* backwards: rows move to higher places */
        memmove(f->values + row * wide, f->values + row * in, in * sizeof(float));
        memset(f->values + row * wide + in, 0, (wide - in) * sizeof(float));
    }
    return FLATCLIP_OK;
}

/* Reads [in, out] as [out, in]. */
static flatclip_status read_columns(const filler *f, const fc_weight *w)
{
    const fc_tensor *tensor = fc_safetensors_find(f->file, w->tensor);
    const size_t in = (size_t)w->in, out = (size_t)w->out;
    float *row = malloc(out * sizeof *row);
    flatclip_status status = row ? FLATCLIP_OK : FLATCLIP_ERR_MEMORY;
    if (!row)
        fc_fail(f->err, status, "no memory to read %s", fc_safetensors_path(f->file));
    for (size_t i = 0; i < in && status == FLATCLIP_OK; i++) {
        status = fc_safetensors_read_f32(f->file, tensor, i * out, out, row, f->err);
        for (size_t o = 0; o < out && status == FLATCLIP_OK; o++)
            f->values[o * in + i] = row[o];
    }
    free(row);
    return status;
}

static flatclip_status fill_one(const filler *f, const fc_weight *w, void *at)
{
    const size_t count = (size_t)padded_depth(w->in) * (size_t)w->out;
    switch (w->form) {
    case FC_WEIGHT_VECTOR:
        FC_TRY(fc_safetensors_read_f32(f->file, fc_safetensors_find(f->file, w->tensor), 0,
                                       (uint64_t)w->out, f->values, f->err));
        return upload(f, at, f->values, (size_t)w->out * sizeof(float));
    case FC_WEIGHT_OUT_BY_IN: FC_TRY(read_rows(f, w, padded_depth(w->in))); break;
    case FC_WEIGHT_IN_BY_OUT: FC_TRY(read_columns(f, w)); break;
    }
    return upload_numbers(f, w->tensor, at, count);
}

static void *fill(void *context, const fc_weight *w, void *at)
{
    filler *f = context;
    if (f->status == FLATCLIP_OK)
        f->status = fill_one(f, w, at);
    return at;
}

/* One row of the patch embedding, channel by channel, becomes pixel by pixel, with (byte / 255 -
 * mean) / std folded in: weights times 256 / (255 std), and what is constant as the bias. */
static float fold_row(const fc_clip_config *config, const float *row, size_t pixels, float *out)
{
    double bias = 0;
    for (size_t c = 0; c < 3; c++)
        for (size_t p = 0; p < pixels; p++) {
            const double w = (double)row[c * pixels + p];
            out[p * 3 + c] = (float)(w * 256 / (255 * (double)config->std[c]));
            bias -= w * (double)config->mean[c] / (double)config->std[c];
        }
    return (float)bias;
}

static flatclip_status fill_folded(const filler *f, const flatclip_model *model, float *row,
                                   float *bias)
{
    const fc_tower *tower = &model->tower;
    const int in = tower->patch.in, depth = fc_cuda_patch_depth(tower);
    const size_t out = (size_t)tower->width;
    const fc_weight w = { PATCH_TENSOR, FC_WEIGHT_OUT_BY_IN, in, tower->width };

    FC_TRY(read_rows(f, &w, depth));
    for (size_t o = 0; o < out; o++) {
        float *values = f->values + o * (size_t)depth;
        memcpy(row, values, (size_t)in * sizeof *row);
        bias[o] = fold_row(&model->config, row, (size_t)in / 3, values);
    }
    FC_TRY(upload_numbers(f, PATCH_TENSOR, tower->patch_bytes.weight, out * (size_t)depth));
    return upload(f, tower->patch_bytes.bias, bias, out * sizeof *bias);
}

static flatclip_status fill_all(filler *f, flatclip_model *model)
{
    float *row = malloc((size_t)model->tower.patch.in * sizeof *row);
    float *bias = malloc((size_t)model->tower.width * sizeof *bias);
    f->status = FLATCLIP_ERR_MEMORY;
    if (row && bias && f->values && f->numbers) {
        f->status = FLATCLIP_OK;
        fc_tower_each_weight(&model->tower, fc_cuda_number_bytes(f->number), fill, f);
        if (f->status == FLATCLIP_OK)
            f->status = fill_folded(f, model, row, bias);
    } else {
        fc_fail(f->err, f->status, "no memory to read %s", fc_safetensors_path(f->file));
    }
    free(bias);
    free(row);
    return f->status;
}

flatclip_status fc_cuda_weights_fill(flatclip_model *model, const fc_safetensors *file,
                                     flatclip_error *err)
{
    filler f = { .file = file, .number = fc_cuda_number(model->precision), .err = err };
    fc_tower_each_weight(&model->tower, fc_cuda_number_bytes(f.number), measure, &f);
    f.values = malloc(f.most * sizeof *f.values);
    f.numbers = malloc(f.most * sizeof(uint16_t));
    const flatclip_status status = fill_all(&f, model);
    free(f.numbers);
    free(f.values);
    return status;
}
