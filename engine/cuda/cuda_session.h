/* What a session has on a CUDA device; see cuda_session.c. */
#ifndef FC_CUDA_SESSION_H
#define FC_CUDA_SESSION_H

typedef struct fc_cuda_session fc_cuda_session;

#endif
