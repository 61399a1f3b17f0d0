/* Weights in a file of torch.save or TorchScript.
 *
 * A tensor of torch is a view of a storage: an offset, and a stride for each dimension. Most are
 * contiguous, and read piece by piece where they lie. Others (a transposed matrix, a slice) are
 * gathered from the stretch of the storage that they span, which is kept in memory meanwhile. */
#include "weights_tools/weight_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "weights_tools/torch_code.h"
#include "weights_tools/torch_file.h"
#include "weights_tools/torch_state.h"

enum {
    CHUNK_BYTES = 64 << 10,         /* read and converted at a time */
    SPAN_LIMIT = 512 << 20          /* bytes of storage that a view may be spread over */
};

typedef struct {
    fc_torch_file *file;
    fc_torch_state found;
    fc_tensor *tensor;              /* [found.count] */
    const fc_torch_tensor *gathered;/* the view whose span is in memory, or NULL */
    unsigned char *span;
} torch_source;

static const fc_tensor *at(const fc_weight_source *source, size_t index)
{
    const torch_source *torch = source->state;
    return &torch->tensor[index];
}

/* -- Views ----------------------------------------------------------------------------------- */

static int is_contiguous(const fc_pickle_value *view)
{
    uint64_t expected = 1;
    for (int d = view->rank - 1; d >= 0; d--) {
        if (view->dim[d] != 1 && view->stride[d] != expected)
            return 0;
        expected *= view->dim[d];
    }
    return 1;
}

/* From the first element of a view that has any to its last, in elements of its storage, which it
 * lies in. */
static uint64_t elements_spanned(const fc_pickle_value *view)
{
    uint64_t last = 0;
    for (int d = 0; d < view->rank; d++)
        last += (view->dim[d] - 1) * view->stride[d];
    return last + 1;
}

/* Where element index of a view lies in its span, in elements. */
static uint64_t position_in_span(const fc_pickle_value *view, uint64_t index)
{
    uint64_t position = 0;
    for (int d = view->rank - 1; d >= 0; d--) {
        position += index % view->dim[d] * view->stride[d];
        index /= view->dim[d];
    }
    return position;
}

static flatclip_status load_span(const fc_weight_source *source, const fc_torch_tensor *tensor,
                                 flatclip_error *err)
{
    torch_source *torch = source->state;
    const fc_pickle_value *view = tensor->value;
    const size_t width = fc_dtype_bytes(view->storage->dtype);
    const uint64_t bytes = elements_spanned(view) * width;
    if (torch->gathered == tensor)
        return FLATCLIP_OK;
    if (bytes > SPAN_LIMIT)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.120s: tensor %.60s is spread over %" PRIu64 " bytes, at most %d are "
                       "gathered: save a copy of it with .contiguous()", source->path, tensor->name,
                       bytes, SPAN_LIMIT);
    free(torch->span);
    torch->gathered = NULL;
    torch->span = malloc((size_t)bytes);
    if (!torch->span)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for tensor %.80s", tensor->name);
    FC_TRY(fc_torch_file_read(torch->file, view->storage, view->offset * width, (size_t)bytes,
                              torch->span, err));
    torch->gathered = tensor;
    return FLATCLIP_OK;
}

/* Elements first to first + count - 1 of a view, as they are stored. */
static flatclip_status read_stored(const fc_weight_source *source, const fc_torch_tensor *tensor,
                                   uint64_t first, size_t count, unsigned char *out,
                                   flatclip_error *err)
{
    torch_source *torch = source->state;
    const fc_pickle_value *view = tensor->value;
    const size_t width = fc_dtype_bytes(view->storage->dtype);
    if (is_contiguous(view))
        return fc_torch_file_read(torch->file, view->storage, (view->offset + first) * width,
                                  count * width, out, err);
    FC_TRY(load_span(source, tensor, err));
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * width, torch->span + position_in_span(view, first + i) * width, width);
    return FLATCLIP_OK;
}

static flatclip_status read_floats(const fc_weight_source *source, const fc_tensor *tensor,
                                   uint64_t first, uint64_t count, float *out, flatclip_error *err)
{
    const torch_source *torch = source->state;
    const fc_torch_tensor *found = &torch->found.tensor[tensor - torch->tensor];
    const size_t width = fc_dtype_bytes(tensor->dtype);
    _Alignas(64) unsigned char chunk[CHUNK_BYTES];
    if (tensor->dtype > FC_F64)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: tensor %.80s is stored as %s, expected a floating type",
                       source->path, tensor->name, fc_dtype_name(tensor->dtype));
    if (first > tensor->count || count > tensor->count - first)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "%.150s: tensor %.60s has %" PRIu64 " elements, cannot read %" PRIu64
                       " from %" PRIu64, source->path, tensor->name, tensor->count, count, first);
    while (count) {
        const size_t now = count < CHUNK_BYTES / width ? (size_t)count : CHUNK_BYTES / width;
        FC_TRY(read_stored(source, found, first, now, chunk, err));
        fc_dtype_to_floats(tensor->dtype, chunk, now, out);
        out += now;
        first += now;
        count -= now;
    }
    return FLATCLIP_OK;
}

static flatclip_status check(const fc_weight_source *source, flatclip_error *err)
{
    const torch_source *torch = source->state;
    for (size_t i = 0; i < torch->found.count; i++)
        FC_TRY(fc_torch_file_check(torch->file, torch->found.tensor[i].value->storage, err));
    return FLATCLIP_OK;
}

/* -- Opening --------------------------------------------------------------------------------- */

static void close_file(fc_weight_source *source)
{
    torch_source *torch = source->state;
    fc_torch_state_free(&torch->found);
    fc_torch_file_close(torch->file);
    free(torch->tensor);
    free(torch->span);
    free(torch);
}

static flatclip_status list_tensors(fc_weight_source *source, flatclip_error *err)
{
    torch_source *torch = source->state;
    const fc_torch_state *found = &torch->found;
    torch->tensor = calloc(found->count + 1, sizeof *torch->tensor);
    if (!torch->tensor)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", source->path);
    for (size_t i = 0; i < found->count; i++) {
        const fc_pickle_value *value = found->tensor[i].value;
        fc_tensor *tensor = &torch->tensor[i];
        tensor->name = found->tensor[i].name;
        tensor->dtype = value->storage->dtype;
        tensor->rank = value->rank;
        memcpy(tensor->dim, value->dim, sizeof tensor->dim);
        tensor->count = 1;
        for (int d = 0; d < value->rank; d++)
            tensor->count *= value->dim[d];
    }
    source->count = found->count;
    return FLATCLIP_OK;
}

static flatclip_status look_into_code(fc_weight_source *source, flatclip_error *err)
{
    const torch_source *torch = source->state;
    int quick_gelu;
    FC_TRY(fc_torch_code_quick_gelu(torch->file, source->path, &quick_gelu, err));
    if (quick_gelu) {
        source->activation = FLATCLIP_ACTIVATION_QUICKGELU;
        snprintf(source->activation_reason, sizeof source->activation_reason,
                 "its own code computes x * sigmoid(1.702 x)");
    }
    return FLATCLIP_OK;
}

flatclip_status fc_source_torch_open(fc_weight_source *source, flatclip_error *err)
{
    torch_source *torch = calloc(1, sizeof *torch);
    if (!torch)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", source->path);
    source->state = torch;
    source->at = at;
    source->read = read_floats;
    source->check = check;
    source->close = close_file;
    FC_TRY(fc_torch_file_open(source->path, &torch->file, err));
    FC_TRY(fc_torch_state_read(source->path, fc_torch_file_root(torch->file), &torch->found, err));
    memcpy(source->left_out, torch->found.left_out, sizeof source->left_out);
    FC_TRY(list_tensors(source, err));
    return look_into_code(source, err);
}
