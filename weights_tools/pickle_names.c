/* The names that a checkpoint's pickle may call upon, and what each stands for. This is the whole
 * list: a name that is not here is refused, so that nothing but these few constructions happens. */
#include "weights_tools/pickle_parts.h"

#include <inttypes.h>
#include <string.h>

typedef enum {
    ORDERED_DICT,               /* of nothing, or of a list of pairs */
    TENSOR,                     /* storage, offset, size, stride, ... */
    PARAMETER,                  /* tensor, requires_grad, hooks, ... : the tensor */
    SAME,                       /* its first argument, in another type */
    STORAGE                     /* a type: names how numbers are stored, and is never called */
} meaning;

static const struct {
    const char *module, *name;
    meaning meaning;
    fc_dtype dtype;
} NAMES[] = {
    { "collections", "OrderedDict", ORDERED_DICT, 0 },
    { "torch._utils", "_rebuild_tensor", TENSOR, 0 },
    { "torch._utils", "_rebuild_tensor_v2", TENSOR, 0 },
    { "torch._utils", "_rebuild_parameter", PARAMETER, 0 },
    { "torch._utils", "_rebuild_parameter_with_state", PARAMETER, 0 },
    { "torch", "Size", SAME, 0 },
    { "torch", "DoubleStorage", STORAGE, FC_F64 },
    { "torch", "FloatStorage", STORAGE, FC_F32 },
    { "torch", "HalfStorage", STORAGE, FC_F16 },
    { "torch", "BFloat16Storage", STORAGE, FC_BF16 },
    { "torch", "LongStorage", STORAGE, FC_I64 },
    { "torch", "IntStorage", STORAGE, FC_I32 },
    { "torch", "ShortStorage", STORAGE, FC_I16 },
    { "torch", "CharStorage", STORAGE, FC_I8 },
    { "torch", "ByteStorage", STORAGE, FC_U8 },
    { "torch", "BoolStorage", STORAGE, FC_BOOL },
    /* TorchScript's own pickler marks the types of lists and dicts: */
    { "torch.jit._pickle", "build_intlist", SAME, 0 },
    { "torch.jit._pickle", "build_doublelist", SAME, 0 },
    { "torch.jit._pickle", "build_boollist", SAME, 0 },
    { "torch.jit._pickle", "build_tensorlist", SAME, 0 },
    { "torch.jit._pickle", "restore_type_tag", SAME, 0 },
};
enum { NAME_COUNT = sizeof NAMES / sizeof *NAMES };

/* TorchScript's classes live below this module; their objects are bags of attributes. */
static const char SCRIPT[] = "__torch__";

static int equals(const char *text, size_t bytes, const char *expected)
{
    return bytes == strlen(expected) && !memcmp(text, expected, bytes);
}

static int is_script_module(const char *module, size_t bytes)
{
    const size_t length = sizeof SCRIPT - 1;
    return bytes >= length && !memcmp(module, SCRIPT, length) &&
           (bytes == length || module[length] == '.');
}

/* A NAME's integer is its line in the table, or NAME_COUNT for a class of TorchScript. */
static fc_pickle_value *new_name(fc_pickle_reader *reader, const char *text, size_t bytes,
                                 int line)
{
    fc_pickle_value *value = fc_pickle_new_text(reader, FC_PICKLE_NAME, text, bytes);
    if (value) {
        value->integer = line;
        value->dtype = line < NAME_COUNT ? NAMES[line].dtype : 0;
    }
    return value;
}

fc_pickle_value *fc_pickle_name(fc_pickle_reader *reader, const char *module, size_t module_bytes,
                                const char *name, size_t name_bytes)
{
    for (int i = 0; i < NAME_COUNT; i++)
        if (equals(module, module_bytes, NAMES[i].module) &&
            equals(name, name_bytes, NAMES[i].name))
            return new_name(reader, name, name_bytes, i);
    if (is_script_module(module, module_bytes))
        return new_name(reader, name, name_bytes, NAME_COUNT);
    if (equals(module, module_bytes, "torch") && name_bytes > 7 &&
        !memcmp(name + name_bytes - 7, "Storage", 7))
        return fc_pickle_refuse(reader, "stores numbers as torch.%.*s, which are not read",
                                (int)(name_bytes < 40 ? name_bytes : 40), name);
    return fc_pickle_refuse(reader, "asks for %.*s.%.*s, which no weights need; nothing was run. "
                            "Save the weights alone: torch.save(model.state_dict(), FILE)",
                            (int)(module_bytes < 40 ? module_bytes : 40), module,
                            (int)(name_bytes < 40 ? name_bytes : 40), name);
}

/* -- Tensors --------------------------------------------------------------------------------- */

/* A number of elements: an int that is not negative. */
static int is_size(const fc_pickle_value *value)
{
    return value->kind == FC_PICKLE_INT && value->integer >= 0;
}

/* Copies a tuple of sizes into out; returns how many, or -1 (a failure). */
static int take_sizes(fc_pickle_reader *reader, const fc_pickle_value *tuple, const char *what,
                      uint64_t out[FC_MAX_RANK])
{
    if (tuple->kind != FC_PICKLE_TUPLE && tuple->kind != FC_PICKLE_LIST) {
        fc_pickle_refuse(reader, "has a tensor whose %s is no tuple", what);
        return -1;
    }
    if (tuple->count > FC_MAX_RANK) {
        fc_pickle_refuse(reader, "has a tensor of %zu dimensions, at most %d are read",
                         tuple->count, FC_MAX_RANK);
        return -1;
    }
    for (size_t i = 0; i < tuple->count; i++) {
        if (!is_size(tuple->item[i])) {
            fc_pickle_refuse(reader, "has a tensor whose %s is negative, or not a number below "
                             "2^63", what);
            return -1;
        }
        out[i] = (uint64_t)tuple->item[i]->integer;
    }
    return (int)tuple->count;
}

/* Whether the products of dimensions, in elements and in bytes, stay far below 2^64. */
static int is_sane(const fc_pickle_value *tensor)
{
    const uint64_t most = UINT64_C(1) << 48;
    uint64_t count = 1;
    for (int d = 0; d < tensor->rank; d++) {
        if (tensor->dim[d] > most || tensor->stride[d] > most)
            return 0;
        if (tensor->dim[d] && count > most / tensor->dim[d])
            return 0;
        count *= tensor->dim[d];
    }
    return tensor->offset <= most;
}

static fc_pickle_value *make_tensor(fc_pickle_reader *reader, const fc_pickle_value *arguments)
{
    fc_pickle_value *const *argument = arguments->item;
    if (arguments->count < 4 || argument[0]->kind != FC_PICKLE_STORAGE || !is_size(argument[1]))
        return fc_pickle_refuse(reader, "rebuilds a tensor from what is no storage, offset, size "
                                "and stride");
    fc_pickle_value *tensor = fc_pickle_new(reader, FC_PICKLE_TENSOR);
    if (!tensor)
        return NULL;
    tensor->storage = argument[0];
    tensor->dtype = argument[0]->dtype;
    tensor->offset = (uint64_t)argument[1]->integer;
    tensor->rank = take_sizes(reader, argument[2], "size", tensor->dim);
    const int strides = take_sizes(reader, argument[3], "stride", tensor->stride);
    if (tensor->rank < 0 || strides < 0)
        return NULL;
    if (tensor->rank != strides)
        return fc_pickle_refuse(reader, "has a tensor of %d dimensions and %d strides",
                                tensor->rank, strides);
    if (!is_sane(tensor))
        return fc_pickle_refuse(reader, "has a tensor of absurd size");
    return tensor;
}

fc_pickle_value *fc_pickle_persistent(fc_pickle_reader *reader, const fc_pickle_value *id)
{
    enum { KIND, TYPE, KEY, LOCATION, ELEMENTS, VIEW, MOST };
    fc_pickle_value *const *part = id->item;
    if (id->kind != FC_PICKLE_TUPLE || id->count < VIEW || id->count > MOST ||
        part[KIND]->kind != FC_PICKLE_TEXT || strcmp(part[KIND]->text, "storage") ||
        part[TYPE]->kind != FC_PICKLE_NAME || part[TYPE]->integer >= NAME_COUNT ||
        NAMES[part[TYPE]->integer].meaning != STORAGE || part[KEY]->kind != FC_PICKLE_TEXT ||
        !part[KEY]->length || strlen(part[KEY]->text) != part[KEY]->length ||
        !is_size(part[ELEMENTS]) || part[ELEMENTS]->integer > INT64_C(1) << 48)
        return fc_pickle_refuse(reader, "has a persistent id that is no storage");
    if (id->count == MOST && part[VIEW]->kind != FC_PICKLE_NONE)
        return fc_pickle_refuse(reader, "has a view of a storage as PyTorch before 0.4 wrote; load "
                                "and save it with a newer one");
    fc_pickle_value *storage = fc_pickle_new_text(reader, FC_PICKLE_STORAGE, part[KEY]->text,
                                                  part[KEY]->length);
    if (!storage)
        return NULL;
    storage->dtype = part[TYPE]->dtype;
    storage->elements = (uint64_t)part[ELEMENTS]->integer;
    fc_pickle_append(reader, reader->pickle->storages, storage);
    return storage;
}

/* -- Calls ----------------------------------------------------------------------------------- */

/* OrderedDict(), or OrderedDict([(key, value), ...]). */
static fc_pickle_value *make_dict(fc_pickle_reader *reader, const fc_pickle_value *arguments)
{
    fc_pickle_value *dict = fc_pickle_new(reader, FC_PICKLE_DICT);
    const fc_pickle_value *pairs = arguments->count == 1 ? arguments->item[0] : NULL;
    if (arguments->count > 1 || (pairs && pairs->kind != FC_PICKLE_LIST))
        return fc_pickle_refuse(reader, "makes an OrderedDict of what is no list");
    for (size_t i = 0; pairs && i < pairs->count; i++) {
        const fc_pickle_value *pair = pairs->item[i];
        if ((pair->kind != FC_PICKLE_TUPLE && pair->kind != FC_PICKLE_LIST) || pair->count != 2)
            return fc_pickle_refuse(reader, "makes an OrderedDict of what are no pairs");
        fc_pickle_append(reader, dict, pair->item[0]);
        fc_pickle_append(reader, dict, pair->item[1]);
    }
    return dict;
}

fc_pickle_value *fc_pickle_call(fc_pickle_reader *reader, const fc_pickle_value *callee,
                                const fc_pickle_value *arguments)
{
    if (callee->kind != FC_PICKLE_NAME || arguments->kind != FC_PICKLE_TUPLE)
        return fc_pickle_refuse(reader, "calls what is no name, or with what is no tuple");
    if (callee->integer >= NAME_COUNT)
        return fc_pickle_new_text(reader, FC_PICKLE_BAG, callee->text, callee->length);
    switch (NAMES[callee->integer].meaning) {
    case ORDERED_DICT:
        return make_dict(reader, arguments);
    case TENSOR:
        return make_tensor(reader, arguments);
    case PARAMETER:
        if (!arguments->count || arguments->item[0]->kind != FC_PICKLE_TENSOR)
            return fc_pickle_refuse(reader, "makes a parameter of what is no tensor");
        return arguments->item[0];
    case SAME:
        if (!arguments->count)
            return fc_pickle_refuse(reader, "calls %.40s without an argument", callee->text);
        return arguments->item[0];
    default:
        return fc_pickle_refuse(reader, "calls %.40s, which is a type of numbers", callee->text);
    }
}

void fc_pickle_build(fc_pickle_reader *reader, fc_pickle_value *object,
                     const fc_pickle_value *state)
{
    if (object->kind == FC_PICKLE_BAG) {
        for (size_t i = 0; state->kind == FC_PICKLE_DICT && i < state->count; i++)
            fc_pickle_append(reader, object, state->item[i]);
    } else if (object->kind != FC_PICKLE_DICT) { /* a state dict's _metadata says nothing to us */
        fc_pickle_refuse(reader, "gives a state to what can have none");
    }
}
