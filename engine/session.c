/* Creating a session: measure, allocate once, place, start the workers. */
#include "engine/session.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/cpu_count.h"
#include "engine/options.h"
#include "engine/workspace.h"

flatclip_status fc_session_options_read(const flatclip_model *model,
                                        const flatclip_session_options *options,
                                        flatclip_session_options *full, flatclip_error *err)
{
    *full = (flatclip_session_options)FLATCLIP_SESSION_OPTIONS_INIT;
    FC_TRY(fc_options_read("flatclip_session_options", options, full, sizeof *full, err));
    FC_TRY(fc_check_range("max_batch", full->max_batch, 0, FLATCLIP_MAX_BATCH, err));
    FC_TRY(fc_check_range("threads", full->threads, 0, FLATCLIP_MAX_THREADS, err));
    FC_TRY(fc_check_range("recipe", full->recipe, FLATCLIP_RECIPE_AUTO, FLATCLIP_RECIPE_HF, err));
    if (full->max_batch == 0)
        full->max_batch = FLATCLIP_DEFAULT_BATCH;
    if (full->threads == 0) {
        const int cpus = fc_cpu_count();
        full->threads = cpus < FLATCLIP_MAX_THREADS ? cpus : FLATCLIP_MAX_THREADS;
    }
    if (full->recipe == FLATCLIP_RECIPE_AUTO)
        full->recipe = model->config.recipe;
    if (full->max_pixels == 0)
        full->max_pixels = FC_DEFAULT_MAX_PIXELS;
    return FLATCLIP_OK;
}

/* What the batches are staged in: pixels where the device wants them, the rest on the host. */
static void staging_layout(flatclip_session *session, fc_arenas *arenas)
{
    const size_t most = (size_t)session->most, side = (size_t)session->model->config.image_size;
    const size_t bytes = side * side * 3;
    const size_t floats = (size_t)session->most_floats * bytes * sizeof(float);
    const int pinned = session->model->device == FLATCLIP_DEVICE_CUDA;
    fc_arena *pixels = pinned ? &arenas->pinned : &arenas->host;

    arenas->host.kind = arenas->pinned.kind = FLATCLIP_REGION_WORKSPACE;
    for (int i = 0; i < session->model->compute->under_way + 2; i++) {
        fc_staging *staging = &session->staging[i];
        staging->session = session;
        /* Pixels that the caller has ready are read where they are, or copied to pinned memory. */
        staging->pixels = fc_arena_take(pixels, "pixels",
                                        pinned && floats > most * bytes ? floats : most * bytes, 1);
        staging->error = fc_arena_take(&arenas->host, "item errors", most, sizeof *staging->error);
        staging->index = fc_arena_take(&arenas->host, "item indices", most,
                                       sizeof *staging->index);
    }
}

void fc_session_layout(flatclip_session *session, fc_arenas *arenas, const flatclip_model *model,
                       const flatclip_session_options *options)
{
    const size_t threads = (size_t)options->threads;

    arenas->pinned.place = FLATCLIP_PLACE_PINNED;
    arenas->device.place = FLATCLIP_PLACE_DEVICE;
    session->model = model;
    session->options = *options;
    session->preprocess = (fc_preprocess_options){ model->config.image_size, options->recipe,
                                                   options->exif_rotate, options->max_pixels,
                                                   model->isa };
    model->compute->session_layout(session, arenas);
    staging_layout(session, arenas);
    session->scratch =
        fc_arena_take(&arenas->host, "resize scratch table", threads, sizeof *session->scratch);
    for (size_t i = 0; i < threads; i++) {
        fc_preprocess_scratch unplaced;
        fc_preprocess_layout(session->scratch ? &session->scratch[i] : &unplaced, &arenas->host,
                             &session->preprocess);
    }

    session->activation_bytes = arenas->host.kind_bytes[FLATCLIP_REGION_ACTIVATIONS] +
                                arenas->device.kind_bytes[FLATCLIP_REGION_ACTIVATIONS];
    session->workspace_bytes = arenas->host.used + arenas->pinned.used + arenas->device.used -
                               session->activation_bytes;
    session->device_bytes = arenas->device.used;
}

static flatclip_status build_session(flatclip_session *session, const flatclip_model *model,
                                     const flatclip_session_options *options, flatclip_error *err)
{
    fc_arenas measured = { .host = { .base = NULL } }, placed = measured;
    fc_session_layout(session, &measured, model, options);
    session->block = fc_block_alloc(measured.host.used);
    if (!session->block)
        return fc_fail(err, FLATCLIP_ERR_MEMORY,
                       "no memory for the %zu bytes of a session with max_batch %d and %d threads",
                       measured.host.used, options->max_batch, options->threads);
    /* Every page now: a first encode without page faults, and resident memory that never creeps. */
    memset(session->block, 0, measured.host.used);
    placed.host.base = session->block;
    FC_TRY(model->compute->session_take(session, &measured, &placed, err));
    fc_session_layout(session, &placed, model, options);
    FC_TRY(fc_pool_create(options->threads, &session->pool, err));
    return model->compute->session_open(session, err);
}

FLATCLIP_API flatclip_status flatclip_session_create(const flatclip_model *model,
                                                     const flatclip_session_options *options,
                                                     flatclip_session **session,
                                                     flatclip_error *err)
{
    fc_succeed(err);
    if (!session)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "flatclip_session_create: session is NULL");
    *session = NULL;
    if (!model)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "flatclip_session_create: model is NULL");
    flatclip_session_options full;
    FC_TRY(fc_session_options_read(model, options, &full, err));

    flatclip_session *s = calloc(1, sizeof *s);
    if (!s)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for a session");
    const flatclip_status status = build_session(s, model, &full, err);
    if (status != FLATCLIP_OK) {
        flatclip_session_free(s);
        return status;
    }
    *session = s;
    return FLATCLIP_OK;
}

FLATCLIP_API void flatclip_session_free(flatclip_session *session)
{
    if (!session)
        return;
    if (session->model)
        session->model->compute->session_close(session);
    fc_pool_free(session->pool);
    fc_block_free(session->block);
    free(session);
}

FLATCLIP_API void flatclip_session_memory(const flatclip_session *session, flatclip_memory *memory)
{
    const size_t weights = session->model->weight_bytes;
    const int on_device = session->model->device == FLATCLIP_DEVICE_CUDA;
    const flatclip_memory full = {
        sizeof full, weights, session->activation_bytes, session->workspace_bytes,
        weights + session->activation_bytes + session->workspace_bytes,
        session->device_bytes + (on_device ? weights : 0),
    };
    fc_struct_write(&full, sizeof full, memory);
}

FLATCLIP_API flatclip_status flatclip_plan(const char *path,
                                           const flatclip_model_options *model_options,
                                           const flatclip_session_options *session_options,
                                           flatclip_model_info *info, flatclip_memory *memory,
                                           flatclip_region_fn *on_region, void *user,
                                           flatclip_error *err)
{
    fc_succeed(err);
    if (!path)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "flatclip_plan: path is NULL");
    flatclip_model_options for_model;
    FC_TRY(fc_model_options_read(model_options, &for_model, err));

    flatclip_model model = { .block = NULL };
    const fc_arena watched = { .watch = on_region, .watch_user = user };
    fc_arenas weights = { watched, watched, watched }, working = weights;
    fc_safetensors *file;
    FC_TRY(fc_model_plan(path, &for_model, &model, &weights, &file, err));
    fc_safetensors_close(file);

    flatclip_session_options for_session;
    FC_TRY(fc_session_options_read(&model, session_options, &for_session, err));
    flatclip_session session = { .block = NULL };
    fc_session_layout(&session, &working, &model, &for_session);
    if (info)
        fc_model_describe(&model, info);
    if (memory)
        flatclip_session_memory(&session, memory);
    return FLATCLIP_OK;
}
