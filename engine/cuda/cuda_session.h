/* What a session has on a CUDA device; see cuda_session.c. */
#ifndef FC_CUDA_SESSION_H
#define FC_CUDA_SESSION_H

#include "engine/cuda/cuda_backend.h"

typedef struct fc_cuda_session fc_cuda_session;

/* What a profile or a test needs to run operations one by one: the backend, and the device's room
 * for the pixels of one batch. */
fc_cuda_backend *fc_cuda_session_backend(fc_cuda_session *session);
void *fc_cuda_session_pixels(const fc_cuda_session *session);

#endif
