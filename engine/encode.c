/* The encode pipeline. Pictures are decoded by whichever thread of the session has nothing to
 * compute, into one batch of pixels, while another batch goes through the tower. */
#include "engine/encode.h"

#include <math.h>
#include <string.h>

/* -- Results ---------------------------------------------------------------------------------- */

static int is_finite_row(const float *row, int count)
{
    for (int i = 0; i < count; i++)
        if (!isfinite(row[i]))
            return 0;
    return 1;
}

static void deliver(fc_results *results, size_t index, const float *row,
                    const flatclip_error *error, int embed_dim)
{
    if (!row && results->failed++ == 0) {
        results->first_failed = index;
        results->first_error = *error;
    }
    if (results->on_result) {
        if (!results->is_stopped)
            results->is_stopped = results->on_result(results->user, index, row, error) != 0;
        return;
    }
    float *out = results->embeddings + index * (size_t)embed_dim;
    if (row)
        memcpy(out, row, (size_t)embed_dim * sizeof *out);
    else
        memset(out, 0, (size_t)embed_dim * sizeof *out);
    if (results->items)
        results->items[index] = *error;
}

/* One row as it was computed -> the result of input index. */
static void deliver_row(const flatclip_session *session, fc_results *results, size_t index,
                        const float *embedding)
{
    const int dim = session->model->config.embed_dim;
    flatclip_error error;
    fc_succeed(&error);
    if (!is_finite_row(embedding, dim)) {
        fc_fail(&error, FLATCLIP_ERR_NUMERIC,
                "the embedding is not finite: the weights or the pixels overflow %s",
                session->model->precision == FLATCLIP_PRECISION_F16 ? "half precision; try bf16 "
                "or f32" : "float32");
        embedding = NULL;
    }
    deliver(results, index, embedding, &error, dim);
}

/* -- Staging ---------------------------------------------------------------------------------- */

static void stage_task(void *context, int task, int worker)
{
    const fc_staging *batch = context;
    flatclip_session *session = batch->session;
    const size_t side = (size_t)session->model->config.image_size;
    const size_t input = batch->first + (size_t)task;
    const fc_preprocess_options *options = &session->preprocess;
    fc_preprocess_scratch *scratch = &session->scratch[worker];
    uint8_t *pixels = batch->pixels + (size_t)task * side * side * 3;
    flatclip_error *error = &batch->error[task];

    fc_succeed(error);
    switch (batch->inputs.kind) {
    case FC_INPUT_FILES: {
        const char *path = ((const char *const *)batch->inputs.list)[input];
        if (path)
            fc_preprocess_file(options, scratch, path, pixels, error);
        else
            fc_fail(error, FLATCLIP_ERR_ARGUMENT, "the path is NULL");
        break;
    }
    case FC_INPUT_BYTES: {
        const flatclip_bytes *file = &((const flatclip_bytes *)batch->inputs.list)[input];
        fc_preprocess_bytes(options, scratch, file->data, file->bytes, pixels, error);
        break;
    }
    case FC_INPUT_IMAGES:
        fc_preprocess_image(options, scratch, &((const flatclip_image *)batch->inputs.list)[input],
                            pixels, error);
        break;
    case FC_INPUT_U8:
    case FC_INPUT_F32: break; /* need no staging: encode_ready */
    }
}

static int is_ready(const fc_inputs *inputs)
{
    return inputs->kind == FC_INPUT_U8 || inputs->kind == FC_INPUT_F32;
}

/* Inputs in a batch. */
static size_t most_inputs(const flatclip_session *session, const fc_inputs *inputs)
{
    return (size_t)(inputs->kind == FC_INPUT_F32 ? session->most_floats : session->most);
}

/* Starts decoding the batch that begins with input first, if there is one and it needs that. */
static void start_staging(flatclip_session *session, fc_staging *batch, const fc_inputs *inputs,
                          size_t first)
{
    const size_t left = first < inputs->count ? inputs->count - first : 0;
    const size_t most = most_inputs(session, inputs);
    batch->inputs = *inputs;
    batch->first = first;
    batch->count = (int)(left < most ? left : most);
    if (is_ready(inputs))
        for (int i = 0; i < batch->count; i++)
            fc_succeed(&batch->error[i]);
    else
        fc_pool_start_background(session->pool, stage_task, batch, batch->count);
}

/* Moves the pictures that have pixels together. */
static void close_ranks(const flatclip_session *session, fc_staging *batch)
{
    const size_t side = (size_t)session->model->config.image_size, bytes = side * side * 3;
    int good = 0;
    for (int i = 0; i < batch->count; i++) {
        if (batch->error[i].status != FLATCLIP_OK)
            continue;
        if (good != i)
            memcpy(batch->pixels + (size_t)good * bytes, batch->pixels + (size_t)i * bytes, bytes);
        batch->index[good++] = i;
    }
    batch->good = good;
}

/* -- Computing -------------------------------------------------------------------------------- */

/* Where the batch's pixels are: the caller's, if he has them ready. */
static const void *pixels_of(const flatclip_session *session, const fc_staging *batch)
{
    const size_t side = (size_t)session->model->config.image_size;
    switch (batch->inputs.kind) {
    case FC_INPUT_U8:
        return (const uint8_t *)batch->inputs.list + batch->first * side * side * 3;
    case FC_INPUT_F32: return (const float *)batch->inputs.list + batch->first * side * side * 3;
    default: return batch->pixels;
    }
}

static flatclip_status start(flatclip_session *session, int slot, flatclip_error *err)
{
    fc_staging *batch = &session->staging[slot];
    const fc_pixel_type type = batch->inputs.kind == FC_INPUT_F32 ? FC_PIXELS_F32 : FC_PIXELS_U8;
    close_ranks(session, batch);
    if (!batch->good)
        return FLATCLIP_OK;
    return session->model->compute->start(session, slot, pixels_of(session, batch), type,
                                          batch->good, err);
}

static flatclip_status finish(flatclip_session *session, int slot, fc_results *results,
                              flatclip_error *err)
{
    const fc_staging *batch = &session->staging[slot];
    const int dim = session->model->config.embed_dim;
    fc_rows rows;
    if (batch->good)
        FC_TRY(session->model->compute->finish(session, slot, &rows, err));
    for (int i = 0, row = 0; i < batch->count; i++) {
        const size_t index = batch->first + (size_t)i;
        if (row < batch->good && batch->index[row] == i)
            deliver_row(session, results, index, fc_row(rows, (size_t)row++));
        else
            deliver(results, index, NULL, &batch->error[i], dim);
    }
    return FLATCLIP_OK;
}

/* Waits for a batch that nobody wants: the device must not go on with memory that is used again. */
static void abandon(flatclip_session *session, int slot)
{
    fc_rows rows;
    flatclip_error ignored;
    if (session->staging[slot].good)
        (void)session->model->compute->finish(session, slot, &rows, &ignored);
}

/* While batch i is computed, batch i + 1 is decoded; where the device works by itself, it is given
 * batch i before batch i - 1 is waited for. */
static flatclip_status encode_all(flatclip_session *session, const fc_inputs *inputs,
                                  fc_results *results, flatclip_error *err)
{
    const size_t most = most_inputs(session, inputs);
    const size_t under_way = (size_t)session->model->compute->under_way, slots = under_way + 2;
    const size_t batches = inputs->count / most + (inputs->count % most != 0);
    size_t started = 0, finished = 0;
    flatclip_status status = FLATCLIP_OK;

    start_staging(session, &session->staging[0], inputs, 0);
    while (finished < batches && status == FLATCLIP_OK && !results->is_stopped) {
        if (started < batches) {
            fc_pool_finish_background(session->pool);
            start_staging(session, &session->staging[(started + 1) % slots], inputs,
                          (started + 1) * most);
            status = start(session, (int)(started++ % slots), err);
        }
        if (status == FLATCLIP_OK && (started == batches || started - finished > under_way))
            status = finish(session, (int)(finished++ % slots), results, err);
    }
    fc_pool_finish_background(session->pool);
    for (; finished < started; finished++)
        abandon(session, (int)(finished % slots));
    return status;
}

/* -- The whole call --------------------------------------------------------------------------- */

flatclip_status fc_encode(flatclip_session *session, const fc_inputs *inputs, fc_results *results,
                          flatclip_error *err)
{
    FC_TRY(encode_all(session, inputs, results, err));
    if (results->is_stopped)
        return fc_fail(err, FLATCLIP_ERR_STOPPED, "stopped by the result callback");
    if (!results->failed)
        return FLATCLIP_OK;

    /* Then the caller has every item's error already. */
    const int is_told = results->items || results->on_result;
    const flatclip_error first = results->first_error;
    const char *path = inputs->kind == FC_INPUT_FILES
                           ? ((const char *const *)inputs->list)[results->first_failed]
                           : NULL;
    return fc_fail(err, is_told ? FLATCLIP_ERR_ITEMS : first.status,
                   "%zu of %zu inputs failed; first input %zu%s%s%s: %s", results->failed,
                   inputs->count, results->first_failed, path ? " (" : "", path ? path : "",
                   path ? ")" : "", first.message);
}
