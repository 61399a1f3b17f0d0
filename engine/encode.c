/* The encode pipeline. Pictures are decoded by whichever thread of the session has nothing to
 * compute, into one of two batches of pixels, while the other batch goes through the tower. */
#include "engine/encode.h"

#include <math.h>
#include <string.h>

#include "engine/tower.h"

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

/* Row of ws->embed -> the result of input index. */
static void deliver_row(flatclip_session *session, fc_results *results, size_t index, int row)
{
    const int dim = session->model->config.embed_dim;
    const float *embedding = fc_row(session->ws.embed, (size_t)row);
    flatclip_error error;
    fc_succeed(&error);
    if (!is_finite_row(embedding, dim)) {
        fc_fail(&error, FLATCLIP_ERR_NUMERIC,
                "the embedding is not finite: the weights or the pixels overflow float32");
        embedding = NULL;
    }
    deliver(results, index, embedding, &error, dim);
}

/* -- Computing -------------------------------------------------------------------------------- */

static flatclip_status compute(flatclip_session *session, const void *pixels, fc_pixel_type type,
                               int batch, flatclip_error *err)
{
    fc_backend *be = &session->backend.base;
    const fc_tower *tower = &session->model->tower;
    fc_run_image_tower(be, tower, &session->ws, pixels, type, batch);
    if (!session->options.no_normalize)
        fc_l2_normalize(be, session->ws.embed, batch, tower->embed);
    return fc_backend_finish(be, err);
}

/* Pixels that the caller has ready: no staging. */
static flatclip_status encode_ready(flatclip_session *session, const fc_inputs *inputs,
                                    fc_results *results, flatclip_error *err)
{
    const size_t side = (size_t)session->model->config.image_size;
    const size_t most = (size_t)session->options.max_batch;
    const fc_pixel_type type = inputs->kind == FC_INPUT_U8 ? FC_PIXELS_U8 : FC_PIXELS_F32;
    const size_t bytes = side * side * 3 * (type == FC_PIXELS_U8 ? 1 : sizeof(float));

    for (size_t first = 0; first < inputs->count; first += most) {
        const size_t left = inputs->count - first, batch = left < most ? left : most;
        FC_TRY(compute(session, (const char *)inputs->list + first * bytes, type, (int)batch, err));
        for (size_t i = 0; i < batch; i++)
            deliver_row(session, results, first + i, (int)i);
    }
    return FLATCLIP_OK;
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

/* Starts decoding the batch that begins with input first, if there is one. */
static void start_staging(flatclip_session *session, fc_staging *batch, const fc_inputs *inputs,
                          size_t first)
{
    const size_t left = first < inputs->count ? inputs->count - first : 0;
    const size_t most = (size_t)session->options.max_batch;
    batch->inputs = *inputs;
    batch->first = first;
    batch->count = (int)(left < most ? left : most);
    fc_pool_start_background(session->pool, stage_task, batch, batch->count);
}

/* Moves the pictures that have pixels together; returns how many there are. */
static int close_ranks(const flatclip_session *session, fc_staging *batch)
{
    const size_t side = (size_t)session->model->config.image_size, bytes = side * side * 3;
    int good = 0;
    for (int i = 0; i < batch->count; i++) {
        if (batch->error[i].status != FLATCLIP_OK)
            continue;
        if (good != i)
            memcpy(batch->pixels + (size_t)good * bytes, batch->pixels + (size_t)i * bytes, bytes);
        batch->index[good++] = (size_t)i;
    }
    return good;
}

static void deliver_batch(flatclip_session *session, const fc_staging *batch, int good,
                          fc_results *results)
{
    const int dim = session->model->config.embed_dim;
    int row = 0;
    for (int i = 0; i < batch->count; i++) {
        if (row < good && batch->index[row] == (size_t)i)
            deliver_row(session, results, batch->first + (size_t)i, row++);
        else
            deliver(results, batch->first + (size_t)i, NULL, &batch->error[i], dim);
    }
}

static flatclip_status encode_staged(flatclip_session *session, const fc_inputs *inputs,
                                     fc_results *results, flatclip_error *err)
{
    const size_t most = (size_t)session->options.max_batch;
    flatclip_status status = FLATCLIP_OK;

    start_staging(session, &session->staging[0], inputs, 0);
    for (size_t first = 0, turn = 0; first < inputs->count; first += most, turn ^= 1) {
        fc_staging *batch = &session->staging[turn];
        fc_pool_finish_background(session->pool);
        start_staging(session, &session->staging[turn ^ 1], inputs, first + most);

        const int good = close_ranks(session, batch);
        if (good)
            status = compute(session, batch->pixels, FC_PIXELS_U8, good, err);
        if (status == FLATCLIP_OK)
            deliver_batch(session, batch, good, results);
        if (status != FLATCLIP_OK || results->is_stopped)
            break;
    }
    fc_pool_finish_background(session->pool);
    return status;
}

/* -- The whole call --------------------------------------------------------------------------- */

flatclip_status fc_encode(flatclip_session *session, const fc_inputs *inputs, fc_results *results,
                          flatclip_error *err)
{
    const int is_ready = inputs->kind == FC_INPUT_U8 || inputs->kind == FC_INPUT_F32;
    FC_TRY(is_ready ? encode_ready(session, inputs, results, err)
                    : encode_staged(session, inputs, results, err));
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
