/* Both operations are graphs of one node (cuDNN's graph interface): describe tensors and node, take
 * the first engine of its heuristics that makes a plan, execute that. */
#define _GNU_SOURCE
#include "bench/device/device_cudnn.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/device/device_memory.h"
#include "engine/base/error.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif

#if defined(CUDNN_VERSION) && CUDNN_VERSION >= 91300

enum { MOST_ENGINES = 8, MOST_PARTS = 32 };

#define FUNCTIONS(DO)                                                                              \
    DO(cudnnCreate) DO(cudnnDestroy) DO(cudnnSetStream) DO(cudnnGetVersion)                        \
    DO(cudnnBackendCreateDescriptor) DO(cudnnBackendDestroyDescriptor)                             \
    DO(cudnnBackendSetAttribute) DO(cudnnBackendGetAttribute) DO(cudnnBackendFinalize)             \
    DO(cudnnBackendExecute) DO(cudnnGetErrorString)

static struct {
    void *loaded;
#define MEMBER(name) __typeof__(&name) name##_;
    FUNCTIONS(MEMBER)
} dnn;

/* NULL, or why it cannot be used. */
static const char *load(void)
{
    static char why[200];
    const char *path = getenv("FLATCLIP_CUDNN");
    if (!dnn.loaded)
        dnn.loaded = dlopen(path && *path ? path : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!dnn.loaded) {
        snprintf(why, sizeof why, "%.140s; FLATCLIP_CUDNN names the file", dlerror());
        return why;
    }
#define FIND(name)                                                                                 \
    if (!(*(void **)&dnn.name##_ = dlsym(dnn.loaded, #name)))                                      \
        return "the library has no " #name;
    FUNCTIONS(FIND)
    return NULL;
}

const char *device_cudnn_words(void)
{
    static char words[40];
    const char *why = load();
    if (why)
        return why;
    const size_t version = dnn.cudnnGetVersion_();
    snprintf(words, sizeof words, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    return words;
}

typedef struct {
    cudnnHandle_t handle;
    char *memory;
    cudnnBackendDescriptor_t parts[MOST_PARTS]; /* everything that was made, in that order */
    int part_count;
    cudnnBackendDescriptor_t plan, pack;
    cudnnStatus_t status; /* the first that was not success: everything after it is left out */
    const char *step;     /* where that was */
} cudnn_operation;

/* -- Descriptors ------------------------------------------------------------------------------ */

static void check(cudnn_operation *o, cudnnStatus_t status, const char *step)
{
    if (o->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        o->status = status;
        o->step = step;
    }
}

static cudnnBackendDescriptor_t make(cudnn_operation *o, cudnnBackendDescriptorType_t type,
                                     const char *step)
{
    cudnnBackendDescriptor_t made = NULL;
    if (o->status == CUDNN_STATUS_SUCCESS && o->part_count < MOST_PARTS)
        check(o, dnn.cudnnBackendCreateDescriptor_(type, &made), step);
    if (made)
        o->parts[o->part_count++] = made;
    return made;
}

static void set(cudnn_operation *o, cudnnBackendDescriptor_t to,
                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void *values, const char *step)
{
    if (o->status == CUDNN_STATUS_SUCCESS)
        check(o, dnn.cudnnBackendSetAttribute_(to, name, type, count, values), step);
}

static void finish(cudnn_operation *o, cudnnBackendDescriptor_t made, const char *step)
{
    if (o->status == CUDNN_STATUS_SUCCESS)
        check(o, dnn.cudnnBackendFinalize_(made), step);
}

static cudnnBackendDescriptor_t make_tensor(cudnn_operation *o, int64_t id,
                                            cudnnDataType_t number, const int64_t dims[4],
                                            const int64_t strides[4], bool by_value)
{
    const int64_t alignment = 16;
    cudnnBackendDescriptor_t t = make(o, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
    set(o, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, "a tensor's number");
    set(o, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &number, "a tensor's type");
    set(o, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims, "a tensor's size");
    set(o, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides, "a tensor's strides");
    set(o, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, "alignment");
    if (by_value)
        set(o, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, "a number");
    finish(o, t, "a tensor");
    return t;
}

/* The graph of one node, and a plan for it. */
static void make_plan(cudnn_operation *o, cudnnBackendDescriptor_t node)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t graph = make(o, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
    set(o, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &o->handle, "a graph");
    set(o, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &node,
        "a graph's node");
    finish(o, graph, "a graph");
    cudnnBackendDescriptor_t heuristics =
        make(o, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics");
    set(o, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &graph, "heuristics");
    set(o, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, "heuristics");
    finish(o, heuristics, "heuristics");

    cudnnBackendDescriptor_t engines[MOST_ENGINES];
    int64_t count = 0;
    for (int i = 0; i < MOST_ENGINES; i++)
        engines[i] = make(o, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine");
    if (o->status == CUDNN_STATUS_SUCCESS)
        check(o, dnn.cudnnBackendGetAttribute_(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_ENGINES, &count,
                                               engines), "engines");
    for (int64_t i = 0; o->status == CUDNN_STATUS_SUCCESS && !o->plan && i < count; i++) {
        cudnnBackendDescriptor_t plan =
            make(o, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
        set(o, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &o->handle, "a plan");
        set(o, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &engines[i], "a plan");
        if (o->status == CUDNN_STATUS_SUCCESS &&
            dnn.cudnnBackendFinalize_(plan) == CUDNN_STATUS_SUCCESS)
            o->plan = plan;
    }
    if (!o->plan)
        check(o, CUDNN_STATUS_NOT_SUPPORTED, "no engine makes a plan");
}

/* What the plan is executed on. Pointers of tensors by value are to host memory. */
static void make_pack(cudnn_operation *o, int64_t count, void *const *pointers,
                      const int64_t *ids, size_t used)
{
    int64_t workspace = 0, one;
    if (o->status == CUDNN_STATUS_SUCCESS)
        check(o, dnn.cudnnBackendGetAttribute_(o->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                               CUDNN_TYPE_INT64, 1, &one, &workspace),
              "workspace");
    if (o->status == CUDNN_STATUS_SUCCESS && workspace > (int64_t)64 << 20)
        check(o, CUDNN_STATUS_NOT_SUPPORTED, "it wants more than 64 MiB of workspace");
    char *work = o->memory + used;
    o->pack = make(o, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "a pack");
    set(o, o->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers,
        "a pack's pointers");
    set(o, o->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids,
        "a pack's numbers");
    set(o, o->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &work,
        "a pack's workspace");
    finish(o, o->pack, "a pack");
}

/* -- Opening ---------------------------------------------------------------------------------- */

static cudnn_operation *open_operation(fc_cuda_stream stream, size_t bytes, flatclip_error *err)
{
    const char *why = load();
    if (why) {
        (void)fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "%s", why);
        return NULL;
    }
    cudnn_operation *o = calloc(1, sizeof *o);
    if (!o) {
        (void)fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for cuDNN's operation");
        return NULL;
    }
    o->memory = device_zeros(stream, bytes + ((size_t)64 << 20), err);
    if (!o->memory) {
        free(o);
        return NULL;
    }
    check(o, dnn.cudnnCreate_(&o->handle), "a handle");
    if (o->status == CUDNN_STATUS_SUCCESS)
        check(o, dnn.cudnnSetStream_(o->handle, stream), "a stream");
    return o;
}

static cudnn_operation *open_attention(const device_cudnn_shape *shape, fc_cuda_stream stream,
                                       int batch, flatclip_error *err)
{
    static const float scale = 0.125f;
    const int64_t rows = shape->tokens, width = shape->width, head = FC_CUDA_HEAD_DIM;
    const size_t out = (size_t)(batch * rows * width) * 2, qkv = 3 * out;
    const int64_t dims[4] = { batch, width / head, rows, head }, ones[4] = { 1, 1, 1, 1 };
    const int64_t in_strides[4] = { rows * 3 * width, head, 3 * width, 1 };
    const int64_t out_strides[4] = { rows * width, head, width, 1 };
    static const int64_t ids[5] = { 1, 2, 3, 4, 5 };
    static const cudnnBackendAttributeName_t names[5] = {
        CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
        CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
        CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
    };
    cudnn_operation *o = open_operation(stream, qkv + out, err);
    if (!o)
        return NULL;
    cudnnBackendDescriptor_t node =
        make(o, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, "attention");
    for (int i = 0; i < 5; i++) {
        cudnnBackendDescriptor_t tensor =
            i < 4 ? make_tensor(o, ids[i], CUDNN_DATA_HALF, dims, i < 3 ? in_strides : out_strides,
                                false)
                  : make_tensor(o, ids[i], CUDNN_DATA_FLOAT, ones, ones, true);
        set(o, node, names[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor, "attention's tensors");
    }
    finish(o, node, "attention");
    make_plan(o, node);
    void *const pointers[5] = { o->memory, o->memory + 2 * width, o->memory + 4 * width,
                                o->memory + qkv, (void *)&scale };
    make_pack(o, 5, pointers, ids, qkv + out);
    return o;
}

static cudnn_operation *open_patches(const device_cudnn_shape *shape, fc_cuda_stream stream,
                                     int batch, flatclip_error *err)
{
    const int64_t side = shape->image_size, patch = shape->patch_size, grid = side / patch;
    const int64_t width = shape->width;
    const size_t x = (size_t)(batch * side * side * 3) * 2;
    const size_t w = (size_t)(width * patch * patch * 3) * 2;
    const size_t y = (size_t)(batch * grid * grid * width) * 2;
    const int64_t x_dims[4] = { batch, 3, side, side };
    const int64_t x_strides[4] = { side * side * 3, 1, side * 3, 3 };
    const int64_t w_dims[4] = { width, 3, patch, patch };
    const int64_t w_strides[4] = { patch * patch * 3, 1, patch * 3, 3 };
    const int64_t y_dims[4] = { batch, width, grid, grid };
    const int64_t y_strides[4] = { grid * grid * width, 1, grid * width, width };
    const int64_t two = 2, zeros[2] = { 0, 0 }, ones[2] = { 1, 1 }, step[2] = { patch, patch };
    static const int64_t ids[3] = { 1, 2, 3 };
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const float one = 1, zero = 0;
    cudnn_operation *o = open_operation(stream, x + w + y, err);
    if (!o)
        return NULL;
    cudnnBackendDescriptor_t conv = make(o, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution");
    set(o, conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two, "its rank");
    set(o, conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums, "its sums");
    set(o, conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode,
        "its mode");
    set(o, conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, zeros, "its padding");
    set(o, conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, zeros, "its padding");
    set(o, conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones, "its dilation");
    set(o, conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, step, "its step");
    finish(o, conv, "a convolution");

    const cudnnBackendDescriptor_t tensors[3] = {
        make_tensor(o, ids[0], CUDNN_DATA_HALF, x_dims, x_strides, false),
        make_tensor(o, ids[1], CUDNN_DATA_HALF, w_dims, w_strides, false),
        make_tensor(o, ids[2], CUDNN_DATA_HALF, y_dims, y_strides, false),
    };
    static const cudnnBackendAttributeName_t names[3] = {
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    };
    cudnnBackendDescriptor_t node =
        make(o, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "a node");
    for (int i = 0; i < 3; i++)
        set(o, node, names[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[i], "a node's tensors");
    set(o, node, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        1, &conv, "a node's convolution");
    set(o, node, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one,
        "a factor");
    set(o, node, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero,
        "a factor");
    finish(o, node, "a node");
    make_plan(o, node);
    void *const pointers[3] = { o->memory, o->memory + x, o->memory + x + w };
    make_pack(o, 3, pointers, ids, x + w + y);
    return o;
}

/* -- Running ---------------------------------------------------------------------------------- */

static void run_plan(fc_cuda_stream stream, void *context)
{
    const cudnn_operation *o = context;
    (void)stream; /* the handle's */
    (void)dnn.cudnnBackendExecute_(o->handle, o->plan, o->pack);
}

static void close_operation(cudnn_operation *o)
{
    while (o->part_count > 0)
        dnn.cudnnBackendDestroyDescriptor_(o->parts[--o->part_count]);
    if (o->handle)
        dnn.cudnnDestroy_(o->handle);
    (void)cudaFree(o->memory);
    free(o);
}

double device_cudnn_time(const device_clock *clock, device_cudnn_operation operation,
                         const device_cudnn_shape *shape, int batch, double seconds,
                         flatclip_error *err)
{
    double taken = (double)NAN;
    cudnn_operation *o = (operation == DEVICE_CUDNN_ATTENTION ? open_attention : open_patches)(
        shape, clock->stream, batch, err);
    if (!o)
        return taken;
    if (o->status == CUDNN_STATUS_SUCCESS)
        check(o, dnn.cudnnBackendExecute_(o->handle, o->plan, o->pack), "executing");
    if (o->status == CUDNN_STATUS_SUCCESS)
        taken = device_time(clock, run_plan, o, seconds, err);
    else
        (void)fc_fail(err, FLATCLIP_ERR_DEVICE, "cuDNN refused: %s: %.60s", o->step,
                      dnn.cudnnGetErrorString_(o->status));
    close_operation(o);
    return taken;
}

#else /* built without a header that has attention as a node */

const char *device_cudnn_words(void)
{
    return "built without cudnn.h of 9.13 or later";
}

double device_cudnn_time(const device_clock *clock, device_cudnn_operation operation,
                         const device_cudnn_shape *shape, int batch, double seconds,
                         flatclip_error *err)
{
    (void)clock, (void)operation, (void)shape, (void)batch, (void)seconds;
    (void)fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "%s", device_cudnn_words());
    return (double)NAN;
}

#endif
