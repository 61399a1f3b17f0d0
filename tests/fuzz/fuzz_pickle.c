/* Fuzz target: any pickle, and the state dict that is looked for in it.
 *
 * Whatever is accepted must keep the promises that readers rely on; a broken one traps. */
#include <stdint.h>
#include <string.h>

#include "weights_tools/torch_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds)
{
    if (!holds)
        __builtin_trap();
}

/* A tensor lies inside its storage, and no number of it overflows. */
static void check_tensor(const fc_torch_tensor *tensor)
{
    const fc_pickle_value *view = tensor->value;
    uint64_t count = 1, last = view->offset, product;
    demand(tensor->name && view->kind == FC_PICKLE_TENSOR && view->rank <= FC_MAX_RANK);
    demand(view->storage && view->storage->kind == FC_PICKLE_STORAGE);
    demand(!__builtin_mul_overflow(view->storage->elements,
                                   fc_dtype_bytes(view->storage->dtype), &product));
    for (int d = 0; d < view->rank; d++)
        demand(!__builtin_mul_overflow(count, view->dim[d], &count));
    demand(!__builtin_mul_overflow(count, sizeof(double), &product));
    for (int d = 0; d < view->rank && count; d++) {
        demand(!__builtin_mul_overflow(view->dim[d] - 1, view->stride[d], &product));
        demand(!__builtin_add_overflow(last, product, &last));
    }
    demand(!count || last < view->storage->elements);
}

static void check_storages(const fc_pickle *pickle)
{
    size_t count;
    const fc_pickle_value *const *storage = fc_pickle_storages(pickle, &count);
    for (size_t i = 0; i < count; i++)
        demand(storage[i]->kind == FC_PICKLE_STORAGE && storage[i]->text[0] &&
               strlen(storage[i]->text) == storage[i]->length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fc_pickle *pickle;
    fc_torch_state state;
    size_t used;
    flatclip_error err = { FLATCLIP_OK, "" };
    if (fc_pickle_read("fuzz", data, size, &pickle, &used, &err) != FLATCLIP_OK) {
        demand(!pickle && err.message[0]);
        return 0;
    }
    demand(used > 0 && used <= size && data[used - 1] == '.');
    check_storages(pickle);
    if (fc_torch_state_read("fuzz", fc_pickle_root(pickle), &state, &err) == FLATCLIP_OK) {
        for (size_t i = 0; i < state.count; i++)
            check_tensor(&state.tensor[i]);
        demand(memchr(state.left_out, 0, sizeof state.left_out) != NULL);
        fc_torch_state_free(&state);
    } else {
        demand(err.status == FLATCLIP_ERR_FORMAT && !state.tensor && !state.names);
    }
    fc_pickle_close(pickle);
    return 0;
}
