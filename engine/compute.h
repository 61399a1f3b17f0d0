/* Where a model's weights lie and its sessions compute: one table for the CPU, one for CUDA.
 *
 * The pipeline (encode.c) starts batches and finishes them in the same order. A device that works
 * by itself may have one batch under way while the next is started; the CPU has computed when start
 * returns. */
#ifndef FC_COMPUTE_H
#define FC_COMPUTE_H

#include "engine/backend.h"
#include "engine/base/safetensors.h"

/* The memory of a model or a session, by where it lies. */
typedef struct {
    fc_arena host;
    fc_arena pinned;        /* page-locked host memory, which a GPU copies from and to */
    fc_arena device;
} fc_arenas;

typedef struct {
    int under_way;          /* batches that may be started and not finished when another is */

    /* Measures or places the weights of a model whose shapes are set. */
    void (*weights_layout)(flatclip_model *model, fc_arenas *arenas);

    /* Takes the memory that weights_layout measured, and fills it from file.
     * Errors: IO, MEMORY, DEVICE. After one, weights_free is called all the same. */
    flatclip_status (*weights_load)(flatclip_model *model, const fc_safetensors *file, int threads,
                                    flatclip_error *err);
    void (*weights_free)(flatclip_model *model);

    /* Measures or places what a session computes in; the pixels are encode.c's (session.c). Sets
     * most and most_floats of a session whose options are set. */
    void (*session_layout)(flatclip_session *session, fc_arenas *arenas);

    /* Takes memory for measured->pinned and ->device, and sets the bases in *placed. */
    flatclip_status (*session_take)(flatclip_session *session, const fc_arenas *measured,
                                    fc_arenas *placed, flatclip_error *err);

    /* After everything is placed and the threads run: whatever else is taken once. */
    flatclip_status (*session_open)(flatclip_session *session, flatclip_error *err);

    /* Gives back what take and open took, as far as they came. */
    void (*session_close)(flatclip_session *session);

    /* Computes batch embeddings from pixels, uint8 [batch, S, S, 3] or float32 [batch, 3, S, S], as
     * number slot (0..FC_STAGING - 1). pixels must stay until finish. Errors: DEVICE. */
    flatclip_status (*start)(flatclip_session *session, int slot, const void *pixels,
                             fc_pixel_type type, int batch, flatclip_error *err);

    /* Waits for the batch started as number slot; *embeddings are its rows, float32 in host memory,
     * until the slot is started again. Errors: DEVICE. */
    flatclip_status (*finish)(flatclip_session *session, int slot, fc_rows *embeddings,
                              flatclip_error *err);
} fc_compute;

extern const fc_compute fc_cpu_compute;
#ifdef FC_WITH_CUDA
extern const fc_compute fc_cuda_compute;
#endif

#endif
