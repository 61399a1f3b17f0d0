/* A session: one worker's threads and all its working memory, in one block. */
#ifndef FC_SESSION_H
#define FC_SESSION_H

#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/cuda_session.h"
#include "engine/image/preprocess.h"
#include "engine/model.h"

/* What pictures come as. */
typedef enum {
    FC_INPUT_FILES,     /* const char *[count] */
    FC_INPUT_BYTES,     /* flatclip_bytes [count] */
    FC_INPUT_IMAGES,    /* flatclip_image [count] */
    FC_INPUT_U8,        /* uint8 [count, S, S, 3] */
    FC_INPUT_F32        /* float32 [count, 3, S, S] */
} fc_input_kind;

typedef struct {
    fc_input_kind kind;
    const void *list;
    size_t count;
} fc_inputs;

/* Batches on their way: one is decoded while another is computed, and on a device that works by
 * itself a third one may be under way. */
enum { FC_STAGING = 3 };

typedef struct {
    flatclip_session *session;
    fc_inputs inputs;
    size_t first;           /* index of its first input */
    int count;              /* inputs in it, 0..most */
    int good;               /* pictures among them that have pixels, and are computed */
    uint8_t *pixels;        /* [most, S, S, 3]; on a GPU in pinned memory */
    flatclip_error *error;  /* [most]: OK, or why there are no pixels */
    int *index;             /* [most]: which input of the batch each picture with pixels is */
} fc_staging;

struct flatclip_session {
    const flatclip_model *model;
    flatclip_session_options options; /* complete: no field is left to a default */
    fc_preprocess_options preprocess;

    int most, most_floats;            /* images in a batch, of bytes and of float32 pixels */

    fc_pool *pool;
    fc_cpu_backend backend;           /* on the CPU */
    fc_cuda_session *cuda;            /* on a CUDA device, else NULL */
    fc_workspace ws;
    fc_staging staging[FC_STAGING];   /* the first two, if nothing is ever under way */
    fc_preprocess_scratch *scratch;   /* one a thread */

    void *block;                      /* all of the above that is placed in host memory */
    size_t activation_bytes, workspace_bytes, device_bytes;
};

/* Completes the caller's options (NULL: all defaults) for a model. Errors: ARGUMENT. */
flatclip_status fc_session_options_read(const flatclip_model *model,
                                        const flatclip_session_options *options,
                                        flatclip_session_options *full, flatclip_error *err);

/* Measures or places everything that a session of model (its configuration is enough) with complete
 * options works with, and notes the sizes. A pure function of both. */
void fc_session_layout(flatclip_session *session, fc_arenas *arenas, const flatclip_model *model,
                       const flatclip_session_options *options);

#endif
