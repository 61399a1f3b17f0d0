/* Finding the tensors in what was pickled.
 *
 * What was pickled is untrusted, and may refer to itself or to one thing many times: the walk is
 * bounded in depth and in steps. */
#include "weights_tools/torch_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_LIMIT = 64,
    STEP_LIMIT = 200000,        /* attributes of TorchScript objects; CLIP's have some 10,000 */
    NAME_LIMIT = 512            /* bytes of a tensor's name, with the NUL */
};

/* Under what training scripts keep the weights, in the order of preference. */
static const char *const WRAPPERS[] = { "state_dict", "model_state_dict", "model", "module",
                                        "net", "network", "clip", "weights", "params" };
enum { WRAPPER_COUNT = sizeof WRAPPERS / sizeof *WRAPPERS };

/* The state while it grows. Names move when their memory does: until the end, only their offsets
 * are known. */
typedef struct {
    const char *file;
    fc_torch_state *state;
    size_t *name_at;            /* [capacity] */
    size_t capacity, names_used, names_capacity;
    size_t steps;
    flatclip_error *err;
} collector;

static flatclip_status no_memory(const collector *to, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the tensors of %.200s", to->file);
}

/* -- Collecting ------------------------------------------------------------------------------ */

static flatclip_status make_room(collector *to, size_t name_bytes)
{
    if (to->state->count == to->capacity) {
        const size_t capacity = to->capacity ? 2 * to->capacity : 512;
        fc_torch_tensor *tensor = realloc(to->state->tensor, capacity * sizeof *tensor);
        to->state->tensor = tensor ? tensor : to->state->tensor;
        size_t *name_at = realloc(to->name_at, capacity * sizeof *name_at);
        to->name_at = name_at ? name_at : to->name_at;
        if (!tensor || !name_at)
            return no_memory(to, to->err);
        to->capacity = capacity;
    }
    if (name_bytes > to->names_capacity - to->names_used) {
        const size_t capacity = 2 * to->names_capacity + name_bytes + 4096;
        char *names = realloc(to->state->names, capacity);
        if (!names)
            return no_memory(to, to->err);
        to->state->names = names;
        to->names_capacity = capacity;
    }
    return FLATCLIP_OK;
}

/* Whether a tensor that has elements lies inside its storage. */
static int lies_inside(const fc_pickle_value *tensor)
{
    const uint64_t elements = tensor->storage->elements;
    for (int d = 0; d < tensor->rank; d++)
        if (!tensor->dim[d])
            return tensor->offset <= elements;
    if (tensor->offset >= elements)
        return 0;
    uint64_t left = elements - 1 - tensor->offset;
    for (int d = 0; d < tensor->rank; d++) {
        const uint64_t steps = tensor->dim[d] - 1;
        if (steps && tensor->stride[d] > left / steps)
            return 0;
        left -= steps * tensor->stride[d];
    }
    return 1;
}

static flatclip_status collect(collector *to, const char *name, const fc_pickle_value *tensor)
{
    const size_t bytes = strlen(name) + 1;
    if (!lies_inside(tensor))
        return fc_fail(to->err, FLATCLIP_ERR_FORMAT,
                       "%.120s: tensor %.80s reaches outside its storage %.40s of %" PRIu64
                       " elements", to->file, name, tensor->storage->text,
                       tensor->storage->elements);
    FC_TRY(make_room(to, bytes));
    memcpy(to->state->names + to->names_used, name, bytes);
    to->name_at[to->state->count] = to->names_used;
    to->names_used += bytes;
    to->state->tensor[to->state->count++].value = tensor;
    return FLATCLIP_OK;
}

/* -- Names ----------------------------------------------------------------------------------- */

/* A key that can be a tensor's name. */
static int is_name(const fc_pickle_value *key)
{
    return key->kind == FC_PICKLE_TEXT && key->length < NAME_LIMIT &&
           strlen(key->text) == key->length;
}

/* Appends a key to left_out. */
static void leave_out(fc_torch_state *state, const fc_pickle_value *key)
{
    const size_t used = strlen(state->left_out);
    snprintf(state->left_out + used, sizeof state->left_out - used, "%s%.40s", used ? ", " : "",
             key->kind == FC_PICKLE_TEXT ? key->text : "(a key that is no text)");
}

/* -- State dicts ----------------------------------------------------------------------------- */

static int holds_tensors(const fc_pickle_value *dict)
{
    for (size_t i = 0; dict->kind == FC_PICKLE_DICT && i + 1 < dict->count; i += 2)
        if (is_name(dict->item[i]) && dict->item[i + 1]->kind == FC_PICKLE_TENSOR)
            return 1;
    return 0;
}

/* The value under a key; NULL if there is none, or dict is no dict. */
static const fc_pickle_value *find(const fc_pickle_value *dict, const char *key)
{
    for (size_t i = 0; dict->kind == FC_PICKLE_DICT && i + 1 < dict->count; i += 2)
        if (is_name(dict->item[i]) && !strcmp(dict->item[i]->text, key))
            return dict->item[i + 1];
    return NULL;
}

static flatclip_status collect_dict(collector *to, const fc_pickle_value *dict)
{
    for (size_t i = 0; i + 1 < dict->count; i += 2) {
        const fc_pickle_value *key = dict->item[i], *value = dict->item[i + 1];
        if (is_name(key) && value->kind == FC_PICKLE_TENSOR)
            FC_TRY(collect(to, key->text, value));
        else
            leave_out(to->state, key);
    }
    return FLATCLIP_OK;
}

static void leave_out_brothers(fc_torch_state *state, const fc_pickle_value *dict,
                               const fc_pickle_value *chosen)
{
    for (size_t i = 0; i + 1 < dict->count; i += 2)
        if (dict->item[i + 1] != chosen)
            leave_out(state, dict->item[i]);
}

/* The state dict under one of the usual keys, at most two levels below dict; NULL if there is
 * none. Its brothers are left out. */
static const fc_pickle_value *unwrap(fc_torch_state *state, const fc_pickle_value *dict, int levels)
{
    for (int i = 0; i < WRAPPER_COUNT; i++) {
        const fc_pickle_value *inner = find(dict, WRAPPERS[i]);
        const fc_pickle_value *found = !inner ? NULL : holds_tensors(inner) ? inner
                                     : levels > 1 ? unwrap(state, inner, levels - 1) : NULL;
        if (found) {
            leave_out_brothers(state, dict, inner);
            return found;
        }
    }
    return NULL;
}

static flatclip_status refuse(const collector *to, const fc_pickle_value *root)
{
    fc_torch_state keys = { .left_out = "" };
    for (size_t i = 0; root->kind == FC_PICKLE_DICT && i + 1 < root->count; i += 2)
        leave_out(&keys, root->item[i]);
    return fc_fail(to->err, FLATCLIP_ERR_FORMAT,
                   "%.100s holds no state dict (tensors by name, alone or under state_dict or "
                   "model): %s%.100s", to->file,
                   root->kind == FC_PICKLE_DICT ? keys.left_out[0] ? "it has " : "it is empty"
                                                : "it is no dict", keys.left_out);
}

/* -- TorchScript ----------------------------------------------------------------------------- */

/* Collects what an object holds. path [NAME_LIMIT] is its own name, or "". */
static flatclip_status collect_bag(collector *to, const fc_pickle_value *bag, char *path,
                                   int depth)
{
    const size_t length = strlen(path);
    if (depth > DEPTH_LIMIT)
        return fc_fail(to->err, FLATCLIP_ERR_FORMAT,
                       "%.120s: objects are nested over %d deep at %.80s", to->file, DEPTH_LIMIT,
                       path);
    for (size_t i = 0; i + 1 < bag->count; i += 2) {
        const fc_pickle_value *key = bag->item[i], *value = bag->item[i + 1];
        if (++to->steps > STEP_LIMIT)
            return fc_fail(to->err, FLATCLIP_ERR_FORMAT,
                           "%.150s: its objects have over %d attributes, as no model does",
                           to->file, STEP_LIMIT);
        if (!is_name(key) || (value->kind != FC_PICKLE_TENSOR && value->kind != FC_PICKLE_BAG))
            continue;
        if (length + 1 + key->length >= NAME_LIMIT)
            return fc_fail(to->err, FLATCLIP_ERR_FORMAT, "%.120s: a name is too long: %.80s",
                           to->file, path);
        snprintf(path + length, NAME_LIMIT - length, "%s%s", length ? "." : "", key->text);
        FC_TRY(value->kind == FC_PICKLE_TENSOR ? collect(to, path, value)
                                               : collect_bag(to, value, path, depth + 1));
        path[length] = '\0';
    }
    return FLATCLIP_OK;
}

/* -- All together ---------------------------------------------------------------------------- */

static flatclip_status collect_all(collector *to, const fc_pickle_value *root)
{
    char path[NAME_LIMIT] = "";
    if (root->kind == FC_PICKLE_BAG)
        return collect_bag(to, root, path, 1);
    const fc_pickle_value *dict = holds_tensors(root) ? root : unwrap(to->state, root, 2);
    return dict ? collect_dict(to, dict) : refuse(to, root);
}

flatclip_status fc_torch_state_read(const char *name, const fc_pickle_value *root,
                                    fc_torch_state *state, flatclip_error *err)
{
    collector to = { .file = name, .state = state, .err = err };
    memset(state, 0, sizeof *state);
    const flatclip_status status = collect_all(&to, root);
    for (size_t i = 0; i < state->count; i++)
        state->tensor[i].name = state->names + to.name_at[i];
    free(to.name_at);
    if (status != FLATCLIP_OK)
        fc_torch_state_free(state);
    return status;
}

void fc_torch_state_free(fc_torch_state *state)
{
    free(state->tensor);
    free(state->names);
    memset(state, 0, sizeof *state);
}
