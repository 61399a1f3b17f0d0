/* Models and sessions on the CPU: everything lies in host memory, and start computes. */
#include "engine/cpu/cpu_weights.h"
#include "engine/session.h"
#include "engine/tower.h"
#include "engine/workspace.h"

static void weights_layout(flatclip_model *model, fc_arenas *arenas)
{
    fc_cpu_weights_layout(&model->tower, &arenas->host, model->kernels);
}

static flatclip_status weights_load(flatclip_model *model, const fc_safetensors *file, int threads,
                                    flatclip_error *err)
{
    model->block = fc_block_alloc(model->weight_bytes);
    if (!model->block)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "%s: no memory for %zu bytes of weights",
                       fc_safetensors_path(file), model->weight_bytes);
    fc_arena placed = { .base = model->block };
    fc_cpu_weights_layout(&model->tower, &placed, model->kernels);
    return fc_cpu_weights_fill(&model->tower, model->kernels, file, threads, err);
}

static void weights_free(flatclip_model *model)
{
    fc_block_free(model->block);
}

static void session_layout(flatclip_session *session, fc_arenas *arenas)
{
    static const fc_workspace_form form = { sizeof(float), 1 };
    const flatclip_model *model = session->model;

    session->most = session->most_floats = session->options.max_batch;
    fc_workspace_layout(&session->ws, &arenas->host, &model->tower, &form, session->most);
    fc_cpu_backend_layout(&session->backend, &arenas->host, &model->tower, model->kernels,
                          session->options.threads);
}

static flatclip_status session_take(flatclip_session *session, const fc_arenas *measured,
                                    fc_arenas *placed, flatclip_error *err)
{
    (void)session;
    (void)measured;
    (void)placed;
    (void)err;
    return FLATCLIP_OK;
}

static flatclip_status session_open(flatclip_session *session, flatclip_error *err)
{
    (void)err;
    session->backend.pool = session->pool;
    return FLATCLIP_OK;
}

static void session_close(flatclip_session *session)
{
    (void)session;
}

static flatclip_status start(flatclip_session *session, int slot, const void *pixels,
                             fc_pixel_type type, int batch, flatclip_error *err)
{
    (void)slot;
    (void)err;
    fc_run_image_tower(&session->backend.base, &session->model->tower, &session->ws, pixels, type,
                       batch, !session->options.no_normalize);
    return FLATCLIP_OK;
}

static flatclip_status finish(flatclip_session *session, int slot, fc_rows *embeddings,
                              flatclip_error *err)
{
    (void)slot;
    (void)err;
    *embeddings = session->ws.embed;
    return FLATCLIP_OK;
}

const fc_compute fc_cpu_compute = {
    0,       weights_layout, weights_load, weights_free, session_layout, session_take, session_open,
    session_close, start, finish,
};
