/* flatclip.h - image embeddings with CLIP vision transformers; memory fixed before the first image.
 *
 *     flatclip_model *model;
 *     flatclip_session *session;
 *     flatclip_error err;
 *     const char *photo = "cat.jpg";
 *     float row[512];                      // flatclip_model_embed_dim(model) floats an image
 *
 *     if (flatclip_model_load("ViT-B-32.safetensors", NULL, &model, &err) != FLATCLIP_OK ||
 *         flatclip_session_create(model, NULL, &session, &err) != FLATCLIP_OK ||
 *         flatclip_encode_files(session, &photo, 1, row, NULL, &err) != FLATCLIP_OK)
 *         fprintf(stderr, "%s\n", err.message);
 *
 * Objects   A model is the weights, bound to a device when it is loaded: immutable, shareable by
 *           any number of threads. A session is all working memory plus its worker threads: used
 *           by one thread at a time. Free every session before its model.
 * Memory    Loading a model and creating a session are the only calls that allocate. Encoding
 *           never does, except what libjpeg and libpng take for one picture and give back with it.
 *           Buffers that you pass in stay yours and are not kept after the call returns.
 * Errors    Calls that can fail return a flatclip_status and, if err is not NULL, explain it in
 *           *err. The library never prints, never exits, and keeps no global state. After a
 *           failed call, output buffers are unspecified and output handles are NULL, unless the
 *           function says otherwise.
 * Layout    Float arrays are row-major, contiguous float32. [n, d] means n rows of d floats.
 *           In what follows S is the model's image size in pixels, D its embedding size. */
#ifndef FLATCLIP_H
#define FLATCLIP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FLATCLIP_API __attribute__((visibility("default")))
#else
#define FLATCLIP_API
#endif

#define FLATCLIP_VERSION 100 /* major * 10000 + minor * 100 + patch: 0.1.0 */

/* Limits of the options below, and what max_batch is if it is not given. */
#define FLATCLIP_MAX_BATCH 1024
#define FLATCLIP_MAX_THREADS 256
#define FLATCLIP_DEFAULT_BATCH 32

typedef struct flatclip_model flatclip_model;
typedef struct flatclip_session flatclip_session;

/* Values are stable across versions; new ones are only added. */
typedef enum {
    FLATCLIP_OK = 0,
    FLATCLIP_ERR_ARGUMENT = 1,           /* NULL pointer, impossible size, unknown option */
    FLATCLIP_ERR_ITEMS = 2,              /* some inputs failed, each by itself; the rest is good */
    FLATCLIP_ERR_STOPPED = 3,            /* a callback asked to stop */
    FLATCLIP_ERR_IO = 10,                /* file missing, unreadable or not writable */
    FLATCLIP_ERR_FORMAT = 11,            /* file readable, but not a valid model */
    FLATCLIP_ERR_IMAGE_EMPTY = 20,       /* no bytes at all */
    FLATCLIP_ERR_IMAGE_UNKNOWN = 21,     /* content is no picture format that we know */
    FLATCLIP_ERR_IMAGE_UNSUPPORTED = 22, /* a picture, but of a format or kind that is not read */
    FLATCLIP_ERR_IMAGE_TRUNCATED = 23,   /* the data ends too early */
    FLATCLIP_ERR_IMAGE_CORRUPT = 24,     /* checksum or structure is wrong */
    FLATCLIP_ERR_IMAGE_TOO_LARGE = 25,   /* more pixels than the session's max_pixels */
    FLATCLIP_ERR_NUMERIC = 28,           /* the result is not finite */
    FLATCLIP_ERR_MEMORY = 30,            /* memory exhausted; nothing was leaked */
    FLATCLIP_ERR_UNAVAILABLE = 40,       /* a device, precision or CPU feature is lacking */
    FLATCLIP_ERR_DEVICE = 41             /* GPU fault; CUDA works again only in a new process */
} flatclip_status;

typedef struct {
    flatclip_status status;
    char message[300]; /* one line, NUL-terminated; names the file, tensor or argument */
} flatclip_error;

/* AUTO takes the first CUDA device if there is a usable one, else the CPU. */
typedef enum {
    FLATCLIP_DEVICE_AUTO = 0,
    FLATCLIP_DEVICE_CPU = 1,
    FLATCLIP_DEVICE_CUDA = 2
} flatclip_device;

/* What weights and activations are computed in; sums are always float32. AUTO is f32 on the CPU,
 * and f16 on a GPU. */
typedef enum {
    FLATCLIP_PRECISION_AUTO = 0,
    FLATCLIP_PRECISION_F32 = 1,
    FLATCLIP_PRECISION_BF16 = 2,
    FLATCLIP_PRECISION_F16 = 3,
    FLATCLIP_PRECISION_INT8 = 4
} flatclip_precision;

/* How a picture becomes S x S pixels; both resize with Pillow's bits (docs/numerics.md).
 * OPENAI: resize, centre crop, then convert to RGB. HF: convert to RGB, resize, centre crop. */
typedef enum {
    FLATCLIP_RECIPE_AUTO = 0, /* the one that the model file asks for */
    FLATCLIP_RECIPE_OPENAI = 1,
    FLATCLIP_RECIPE_HF = 2
} flatclip_recipe;

typedef enum {
    FLATCLIP_ACTIVATION_QUICKGELU = 1, /* x * sigmoid(1.702 x): the OpenAI weights */
    FLATCLIP_ACTIVATION_GELU = 2       /* x * Phi(x), exact: most open_clip weights */
} flatclip_activation;

/* Options grow at their end. Start from the INIT macro: it records the size that you were compiled
 * with, and a newer library gives every field that you don't know its default. Zero is always the
 * default. NULL in place of options means all defaults. */
typedef struct {
    size_t struct_size;
    flatclip_device device;
    int device_index;             /* which GPU, counted from 0 */
    flatclip_precision precision;
    int threads;                  /* CPU threads that read and pack the weights, gone after loading;
                                   * 0: the CPUs that this process may use */
} flatclip_model_options;
#define FLATCLIP_MODEL_OPTIONS_INIT \
    { sizeof(flatclip_model_options), FLATCLIP_DEVICE_AUTO, 0, FLATCLIP_PRECISION_AUTO, 0 }

typedef struct {
    size_t struct_size;
    int max_batch;       /* images per forward pass, 1..1024; 0: 32. It fixes the memory */
    int threads;         /* 1..256, the caller's included, for decoding and computing together;
                          * 0: the CPUs that this process may use (affinity and cgroup quota) */
    flatclip_recipe recipe;
    int exif_rotate;     /* nonzero: turn pictures upright as their EXIF says; no recipe does */
    uint64_t max_pixels; /* width * height of one picture; 0: 178,956,970, Pillow's own limit */
    int no_normalize;    /* nonzero: leave embeddings at the length that the projection gives */
} flatclip_session_options;
#define FLATCLIP_SESSION_OPTIONS_INIT \
    { sizeof(flatclip_session_options), 0, 0, FLATCLIP_RECIPE_AUTO, 0, 0, 0 }

/* -- The model ------------------------------------------------------------------------------- */

/* Loads the model file at path (docs/file-format.md), written by `flatclip convert` or `synth`.
 * Every tensor is checked; a message names the one that is wrong. On success *model is yours until
 * flatclip_model_free. The file is not needed afterwards. The environment variable FLATCLIP_CPU
 * (portable, avx2, avx512) forces an instruction set.
 * Errors: ARGUMENT, IO, FORMAT, MEMORY, UNAVAILABLE. Thread safe. */
FLATCLIP_API flatclip_status flatclip_model_load(const char *path,
                                                 const flatclip_model_options *options,
                                                 flatclip_model **model, flatclip_error *err);

/* Frees the model; NULL is allowed. No session of it may be left. */
FLATCLIP_API void flatclip_model_free(flatclip_model *model);

/* What a model is. */
typedef struct {
    size_t struct_size;
    int image_size;                /* S: side of the square that the tower sees, in pixels */
    int patch_size;                /* side of a patch, in pixels */
    int tokens;                    /* rows of the residual stream an image: (S / patch)^2 + 1 */
    int width, layers, heads;      /* of the image tower */
    int embed_dim;                 /* D: floats in one embedding */
    flatclip_activation activation;
    flatclip_recipe recipe;        /* what the source asks for: OPENAI or HF */
    float mean[3], std[3];         /* of (byte / 255 - mean) / std, in RGB order */
    flatclip_device device;        /* CPU or CUDA, where it was loaded */
    flatclip_precision precision;  /* never AUTO */
    char backend[64];              /* "cpu/avx512", "cuda:0/sm_90 NVIDIA H200": for a log line */
    char fallback[200];            /* why AUTO took the CPU although this build has CUDA, or "" */
} flatclip_model_info;
#define FLATCLIP_MODEL_INFO_INIT                                                           \
    { sizeof(flatclip_model_info), 0, 0, 0, 0, 0, 0, 0, FLATCLIP_ACTIVATION_QUICKGELU,     \
      FLATCLIP_RECIPE_AUTO, { 0, 0, 0 }, { 0, 0, 0 }, FLATCLIP_DEVICE_AUTO,                \
      FLATCLIP_PRECISION_AUTO, "", "" }

/* Fills as much of *info as info->struct_size covers. Never fails. Thread safe. */
FLATCLIP_API void flatclip_model_describe(const flatclip_model *model, flatclip_model_info *info);

/* D, the floats of one embedding; and S, the side of the pixels, as the encode calls want them. */
FLATCLIP_API int flatclip_model_embed_dim(const flatclip_model *model);
FLATCLIP_API int flatclip_model_image_size(const flatclip_model *model);

/* -- The session ----------------------------------------------------------------------------- */

/* Creates a session on a model: one block of working memory, sized by max_batch, and threads - 1
 * workers. On success *session is yours until flatclip_session_free. Any number of sessions may
 * share a model, each used by one thread at a time.
 * Errors: ARGUMENT, MEMORY. Thread safe. */
FLATCLIP_API flatclip_status flatclip_session_create(const flatclip_model *model,
                                                     const flatclip_session_options *options,
                                                     flatclip_session **session,
                                                     flatclip_error *err);

/* Ends the workers and frees everything; NULL is allowed. */
FLATCLIP_API void flatclip_session_free(flatclip_session *session);

/* -- Encoding -------------------------------------------------------------------------------- */
/* All encode calls take any count (0 included) and split it into batches of max_batch. They block
 * until embeddings [count, D] is written. Rows have length 1, so that a dot product of two rows is
 * their cosine similarity (unless no_normalize). The same image gives the same bits at any batch
 * size, position, thread count and run, on one backend and precision.
 *
 * Items can fail alone. A failed item gets a row of zeros. With items (count records, or NULL),
 * items[i] tells of input i, OK or not, and the call returns FLATCLIP_ERR_ITEMS if any failed;
 * without, the call goes on all the same, and returns and explains the first failure.
 * Errors of the whole call: ARGUMENT, DEVICE. Not thread safe: one thread a session. */

/* Pictures in files: JPEG or PNG, told by content. Item errors: IO, IMAGE_*, MEMORY, NUMERIC. */
FLATCLIP_API flatclip_status flatclip_encode_files(flatclip_session *session,
                                                   const char *const *paths, size_t count,
                                                   float *embeddings, flatclip_error *items,
                                                   flatclip_error *err);

/* A JPEG or PNG file that is in memory. */
typedef struct {
    const void *data;
    size_t bytes;
} flatclip_bytes;

/* Item errors: IMAGE_*, MEMORY, NUMERIC. */
FLATCLIP_API flatclip_status flatclip_encode_bytes(flatclip_session *session,
                                                   const flatclip_bytes *files, size_t count,
                                                   float *embeddings, flatclip_error *items,
                                                   flatclip_error *err);

/* A decoded picture of any size: 8-bit interleaved RGB (sRGB, no alpha), top row first. */
typedef struct {
    const uint8_t *pixels;
    int width, height; /* pixels, at least 1; their product is limited by max_pixels */
    size_t stride;     /* bytes from one row to the next; 0 means 3 * width */
} flatclip_image;

/* Resizes and crops as the session's recipe does.
 * Item errors: ARGUMENT, IMAGE_TOO_LARGE, NUMERIC. */
FLATCLIP_API flatclip_status flatclip_encode_images(flatclip_session *session,
                                                    const flatclip_image *images, size_t count,
                                                    float *embeddings, flatclip_error *items,
                                                    flatclip_error *err);

/* Pixels that are already cropped: uint8 RGB [count, S, S, 3]. Item errors: NUMERIC. */
FLATCLIP_API flatclip_status flatclip_encode_pixels_u8(flatclip_session *session,
                                                       const uint8_t *pixels, size_t count,
                                                       float *embeddings, flatclip_error *items,
                                                       flatclip_error *err);

/* Pixels that are already cropped and normalised: float32 [count, 3, S, S], channels RGB, as
 * torchvision's ToTensor and Normalize leave them. Item errors: NUMERIC. */
FLATCLIP_API flatclip_status flatclip_encode_pixels_f32(flatclip_session *session,
                                                        const float *pixels, size_t count,
                                                        float *embeddings, flatclip_error *items,
                                                        flatclip_error *err);

/* Receives result index, in input order, on the thread that called: embedding [D], valid during the
 * call, or NULL and an error. Return nonzero to stop. It must not use the session. */
typedef int flatclip_result_fn(void *user, size_t index, const float *embedding,
                               const flatclip_error *error);

/* flatclip_encode_files for lists that are too long to hold all rows: results are handed over as
 * they come, and the next batch is decoded while this one is computed.
 * Errors: ARGUMENT, STOPPED, DEVICE; ITEMS if any input failed. */
FLATCLIP_API flatclip_status flatclip_encode_files_each(flatclip_session *session,
                                                        const char *const *paths, size_t count,
                                                        flatclip_result_fn *on_result, void *user,
                                                        flatclip_error *err);

/* -- Memory ---------------------------------------------------------------------------------- */

/* Bytes held, as allocated. They never change while the object lives. */
typedef struct {
    size_t struct_size;
    size_t weights;     /* of the model: one allocation, shared by its sessions */
    size_t activations; /* of the session: what the forward pass writes */
    size_t workspace;   /* of the session: pixels, resize and attention scratch, item records */
    size_t total;       /* the sum */
    size_t device;      /* how much of the total lies on the GPU; 0 on the CPU backend */
} flatclip_memory;
#define FLATCLIP_MEMORY_INIT { sizeof(flatclip_memory), 0, 0, 0, 0, 0 }

/* Fill as much of *memory as its struct_size covers; a session's counts include its model's
 * weights. Never fail. Thread safe. */
FLATCLIP_API void flatclip_model_memory(const flatclip_model *model, flatclip_memory *memory);
FLATCLIP_API void flatclip_session_memory(const flatclip_session *session, flatclip_memory *memory);

/* One line of the memory map. */
typedef enum {
    FLATCLIP_REGION_WEIGHTS = 1,
    FLATCLIP_REGION_ACTIVATIONS = 2,
    FLATCLIP_REGION_WORKSPACE = 3
} flatclip_region_kind;

typedef enum {
    FLATCLIP_PLACE_HOST = 0,
    FLATCLIP_PLACE_PINNED = 1, /* host memory that is page-locked for a GPU's copies */
    FLATCLIP_PLACE_DEVICE = 2
} flatclip_region_place;

/* The weights are one allocation; a session has one of each place that it uses. */
typedef struct {
    flatclip_region_kind kind;
    const char *name; /* tensor or buffer; valid during the call */
    size_t offset;    /* bytes from the start of its allocation */
    size_t bytes;
    flatclip_region_place place;
} flatclip_region;

typedef void flatclip_region_fn(void *user, const flatclip_region *region);

/* Says, from the header of the model file alone, what loading it and creating a session would
 * allocate: totals in *memory, each region to on_region, what the model is in *info. All three may
 * be NULL. Allocates no weights. Errors: as flatclip_model_load. Thread safe. */
FLATCLIP_API flatclip_status flatclip_plan(const char *path,
                                           const flatclip_model_options *model_options,
                                           const flatclip_session_options *session_options,
                                           flatclip_model_info *info, flatclip_memory *memory,
                                           flatclip_region_fn *on_region, void *user,
                                           flatclip_error *err);

/* -- Small things ---------------------------------------------------------------------------- */

/* Names the picture format that the first bytes of a file show ("JPEG", "PNG", "GIF", "WebP", ...),
 * or returns NULL. 32 bytes are enough. Only JPEG and PNG can be encoded. Thread safe. */
FLATCLIP_API const char *flatclip_image_format(const void *head, size_t bytes);

/* "FLATCLIP_ERR_IO", for logs; never NULL. Thread safe. */
FLATCLIP_API const char *flatclip_status_name(flatclip_status status);

/* FLATCLIP_VERSION of the library that is linked. Thread safe. */
FLATCLIP_API int flatclip_version(void);

#ifdef __cplusplus
}
#endif
#endif
