/* cuBLASLt as another provider of matrix products, for whoever asks for it with FLATCLIP_GEMM: ours
 * stay the default until a measurement says otherwise (docs/kernels.md).
 *
 * It chooses algorithms by shape, so that bits may depend on the batch; it takes a pass more for
 * biases and activations; and its workspace is one more part of a session's block. The library is
 * loaded at run time: neither building nor running flatclip needs it. */
#ifndef FC_CUDA_CUBLASLT_H
#define FC_CUDA_CUBLASLT_H

#include "engine/base/error.h"
#include "kernels/launch.h"

enum { FC_CUBLASLT_WORKSPACE = 32 << 20 }; /* bytes, of a session: what NVIDIA advises for 9.0 */

typedef struct fc_cublaslt fc_cublaslt;

/* Reads FLATCLIP_GEMM: *wanted becomes 0 for own, or if it is unset, and 1 for cublaslt. number is
 * what products read: it multiplies 16-bit numbers alone here.
 * Errors: ARGUMENT (another word), UNAVAILABLE (float32). */
flatclip_status fc_cublaslt_wanted(fc_number number, int *wanted, flatclip_error *err);

/* Loads the file that FLATCLIP_CUBLASLT names, or what the loader finds.
 * Errors: UNAVAILABLE (says what is lacking), MEMORY. Free it with fc_cublaslt_unload; NULL is
 * allowed. */
flatclip_status fc_cublaslt_load(fc_cublaslt **library, flatclip_error *err);
void fc_cublaslt_unload(fc_cublaslt *library);

/* "cuBLASLt 13.1" */
const char *fc_cublaslt_name(const fc_cublaslt *library);

/* One session's products. workspace is device memory of FC_CUBLASLT_WORKSPACE bytes.
 * Errors: DEVICE, MEMORY. Free it with fc_cublaslt_close; NULL is allowed. */
typedef struct fc_cublaslt_session fc_cublaslt_session;
flatclip_status fc_cublaslt_open(const fc_cublaslt *library, fc_cuda_stream stream, void *workspace,
                                 fc_cublaslt_session **session, flatclip_error *err);
void fc_cublaslt_close(fc_cublaslt_session *session);

/* Queues a product, as fc_launch_gemm has it. What it takes for that it gives back at once, so it
 * is called when a session is opened and recorded, not when it encodes. */
void fc_cublaslt_gemm(fc_cublaslt_session *session, const fc_gemm *gemm);

/* OK, or why one of the products so far could not be queued; OK for NULL. Errors: DEVICE. */
flatclip_status fc_cublaslt_check(const fc_cublaslt_session *session, flatclip_error *err);

#endif
