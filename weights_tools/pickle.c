/* The stack machine of Python's pickles: https://docs.python.org/3/library/pickletools.html names
 * its opcodes. Protocols 2 to 5 are read, as far as torch.save and TorchScript use them. */
#include "weights_tools/pickle_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_LIMIT = 1 << 20 }; /* values; a state dict of one tensor a line has some thousand */

/* -- Bytes ----------------------------------------------------------------------------------- */

/* The next bytes of the pickle; NULL (a failure) where it ends before. */
static const unsigned char *take(fc_pickle_reader *reader, uint64_t bytes)
{
    if (reader->status != FLATCLIP_OK)
        return NULL;
    if (bytes > (uint64_t)(reader->end - reader->at))
        return fc_pickle_refuse(reader, "ends early: it is damaged or not complete");
    reader->at += bytes;
    return reader->at - bytes;
}

/* A little-endian number of up to 8 bytes; 0 after a failure. */
static uint64_t take_number(fc_pickle_reader *reader, size_t bytes)
{
    const unsigned char *from = take(reader, bytes);
    uint64_t number = 0;
    for (size_t i = bytes; from && i-- > 0;)
        number = number << 8 | from[i];
    return number;
}

/* Up to the next newline, which is taken too and not counted. */
static const char *take_line(fc_pickle_reader *reader, size_t *length)
{
    const unsigned char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
    *length = newline ? (size_t)(newline - reader->at) : 0;
    return newline ? (const char *)take(reader, *length + 1)
                   : fc_pickle_refuse(reader, "ends early: it is damaged or not complete");
}

/* -- The stack ------------------------------------------------------------------------------- */

static void push_any(fc_pickle_reader *reader, fc_pickle_value *value)
{
    if (reader->status != FLATCLIP_OK)
        return;
    if (reader->height == reader->capacity) {
        const size_t capacity = reader->capacity ? 2 * reader->capacity : 256;
        fc_pickle_value **grown = capacity > STACK_LIMIT ? NULL
            : realloc(reader->stack, capacity * sizeof *grown);
        if (capacity > STACK_LIMIT) {
            fc_pickle_refuse(reader, "stacks over %d values, as no checkpoint does", STACK_LIMIT);
            return;
        }
        if (!grown) {
            reader->status = fc_fail(reader->err, FLATCLIP_ERR_MEMORY,
                                     "no memory for the pickle of %.200s", reader->name);
            return;
        }
        reader->stack = grown;
        reader->capacity = capacity;
    }
    reader->stack[reader->height++] = value;
}

static void push(fc_pickle_reader *reader, fc_pickle_value *value)
{
    if (value) /* else a failure is noted already */
        push_any(reader, value);
}

static void *refuse_empty(fc_pickle_reader *reader)
{
    return fc_pickle_refuse(reader, "takes a value from the stack where there is none");
}

/* The value on top, which stays; NULL is a failure. */
static fc_pickle_value *top(fc_pickle_reader *reader)
{
    if (reader->status != FLATCLIP_OK || !reader->height || !reader->stack[reader->height - 1])
        return refuse_empty(reader);
    return reader->stack[reader->height - 1];
}

static fc_pickle_value *pop(fc_pickle_reader *reader)
{
    fc_pickle_value *value = top(reader);
    if (value)
        reader->height--;
    return value;
}

/* Takes all values above the last mark, and the mark: *items [return value]. */
static size_t pop_mark(fc_pickle_reader *reader, fc_pickle_value ***items)
{
    size_t bottom = reader->height;
    while (bottom && reader->stack[bottom - 1])
        bottom--;
    if (!bottom) {
        fc_pickle_refuse(reader, "goes back to a mark where there is none");
        return 0;
    }
    const size_t count = reader->height - bottom;
    *items = reader->stack + bottom;
    reader->height = bottom - 1;
    return count;
}

/* -- Opcodes --------------------------------------------------------------------------------- */

static void push_bool(fc_pickle_reader *reader, int64_t truth)
{
    fc_pickle_value *value = fc_pickle_new(reader, FC_PICKLE_BOOL);
    if (value)
        value->integer = truth;
    push(reader, value);
}

static void push_int(fc_pickle_reader *reader, int64_t integer)
{
    fc_pickle_value *value = fc_pickle_new(reader, FC_PICKLE_INT);
    if (value)
        value->integer = integer;
    push(reader, value);
}

/* bytes bytes in two's complement. */
static void push_long(fc_pickle_reader *reader, uint64_t bytes)
{
    const unsigned char *from = take(reader, bytes);
    if (!from)
        return;
    if (bytes > 8) {
        push(reader, fc_pickle_new_text(reader, FC_PICKLE_LONG, from, (size_t)bytes));
        return;
    }
    uint64_t number = bytes && from[bytes - 1] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = (size_t)bytes; i-- > 0;)
        number = number << 8 | from[i];
    push_int(reader, (int64_t)number);
}

static void push_float(fc_pickle_reader *reader)
{
    const unsigned char *from = take(reader, 8);
    fc_pickle_value *value = fc_pickle_new(reader, FC_PICKLE_FLOAT);
    uint64_t bits = 0;
    for (int i = 0; from && i < 8; i++)
        bits = bits << 8 | from[i];
    if (value)
        memcpy(&value->real, &bits, sizeof bits);
    push(reader, value);
}

/* A text whose length stands before it in length_bytes bytes. */
static void push_text(fc_pickle_reader *reader, size_t length_bytes)
{
    const uint64_t length = take_number(reader, length_bytes);
    const unsigned char *from = take(reader, length);
    if (from)
        push(reader, fc_pickle_new_text(reader, FC_PICKLE_TEXT, from, (size_t)length));
}

static void push_marked(fc_pickle_reader *reader, fc_pickle_kind kind)
{
    fc_pickle_value **items = NULL;
    const size_t count = pop_mark(reader, &items);
    if (kind == FC_PICKLE_DICT && count % 2)
        fc_pickle_refuse(reader, "has a key without a value");
    push(reader, fc_pickle_new_items(reader, kind, items, count));
}

static void push_tuple(fc_pickle_reader *reader, size_t count)
{
    fc_pickle_value *items[3] = { NULL };
    for (size_t i = count; i-- > 0;)
        items[i] = pop(reader);
    push(reader, fc_pickle_new_items(reader, FC_PICKLE_TUPLE, items, count));
}

/* Appends to the list, or to the dict, that lies below the items. */
static void add_items(fc_pickle_reader *reader, fc_pickle_kind kind, fc_pickle_value *const *items,
                      size_t count)
{
    fc_pickle_value *container = top(reader);
    if (container && container->kind != kind)
        fc_pickle_refuse(reader, "adds items to what is no %s",
                         kind == FC_PICKLE_LIST ? "list" : "dict");
    if (kind == FC_PICKLE_DICT && count % 2)
        fc_pickle_refuse(reader, "has a key without a value");
    for (size_t i = 0; i < count && reader->status == FLATCLIP_OK; i++)
        fc_pickle_append(reader, container, items[i]);
}

static void add_marked(fc_pickle_reader *reader, fc_pickle_kind kind)
{
    fc_pickle_value **items = NULL;
    const size_t count = pop_mark(reader, &items);
    add_items(reader, kind, items, count);
}

static void add_popped(fc_pickle_reader *reader, fc_pickle_kind kind, size_t count)
{
    fc_pickle_value *items[2] = { NULL };
    for (size_t i = count; i-- > 0;)
        items[i] = pop(reader);
    add_items(reader, kind, items, count);
}

/* Python numbers what it remembers from 0 on, so that a number far off is no pickler's. */
static void put(fc_pickle_reader *reader, uint64_t index)
{
    fc_pickle_value *value = top(reader);
    if (value && index > reader->memo->count)
        fc_pickle_refuse(reader, "remembers a value as number %" PRIu64 " after %zu others", index,
                         reader->memo->count);
    else if (value && index < reader->memo->count)
        reader->memo->item[index] = value;
    else
        fc_pickle_append(reader, reader->memo, value);
}

static void get(fc_pickle_reader *reader, uint64_t index)
{
    if (index >= reader->memo->count)
        fc_pickle_refuse(reader, "recalls value number %" PRIu64 ", which it never remembered",
                         index);
    else
        push(reader, reader->memo->item[index]);
}

static void push_global(fc_pickle_reader *reader)
{
    size_t module_bytes, name_bytes;
    const char *module = take_line(reader, &module_bytes);
    const char *name = module ? take_line(reader, &name_bytes) : NULL;
    if (name)
        push(reader, fc_pickle_name(reader, module, module_bytes, name, name_bytes));
}

static void push_stack_global(fc_pickle_reader *reader)
{
    const fc_pickle_value *name = pop(reader), *module = pop(reader);
    if (!name || !module)
        return;
    if (name->kind != FC_PICKLE_TEXT || module->kind != FC_PICKLE_TEXT)
        fc_pickle_refuse(reader, "names a global by what is no text");
    else
        push(reader, fc_pickle_name(reader, module->text, module->length, name->text,
                                    name->length));
}

static void call(fc_pickle_reader *reader)
{
    const fc_pickle_value *arguments = pop(reader), *callee = pop(reader);
    if (arguments && callee)
        push(reader, fc_pickle_call(reader, callee, arguments));
}

static void build(fc_pickle_reader *reader)
{
    const fc_pickle_value *state = pop(reader);
    fc_pickle_value *object = top(reader);
    if (state && object)
        fc_pickle_build(reader, object, state);
}

static void persistent(fc_pickle_reader *reader)
{
    const fc_pickle_value *id = pop(reader);
    if (id)
        push(reader, fc_pickle_persistent(reader, id));
}

/* Drops the value on top, or the mark. */
static void drop(fc_pickle_reader *reader)
{
    if (reader->height)
        reader->height--;
    else
        refuse_empty(reader);
}

static void refuse_opcode(fc_pickle_reader *reader, unsigned char opcode)
{
    if (opcode && strchr("ILFSVpgPid", opcode))
        fc_pickle_refuse(reader, "has an opcode '%c' of protocol 0 or 1; torch.save writes "
                         "protocol 2", opcode);
    else
        fc_pickle_refuse(reader, "has opcode 0x%02x, which no checkpoint needs", opcode);
}

static void run_opcode(fc_pickle_reader *reader, unsigned char opcode)
{
    fc_pickle_value **unused = NULL;
    switch (opcode) {
    case 0x80: /* PROTO */
        if (take_number(reader, 1) > 5)
            fc_pickle_refuse(reader, "has a protocol later than 5");
        break;
    case 0x95: take_number(reader, 8); break; /* FRAME: how much to read at a time */
    case '(': push_any(reader, NULL); break;
    case '0': drop(reader); break;
    case '1': pop_mark(reader, &unused); break;
    case 'N': push(reader, fc_pickle_new(reader, FC_PICKLE_NONE)); break;
    case 0x88: push_bool(reader, 1); break;
    case 0x89: push_bool(reader, 0); break;
    case 'J': push_int(reader, (int32_t)take_number(reader, 4)); break;
    case 'K': push_int(reader, (int64_t)take_number(reader, 1)); break;
    case 'M': push_int(reader, (int64_t)take_number(reader, 2)); break;
    case 0x8a: push_long(reader, take_number(reader, 1)); break;
    case 0x8b: push_long(reader, take_number(reader, 4)); break;
    case 'G': push_float(reader); break;
    case 'X': case 'B': case 'T': push_text(reader, 4); break;
    case 0x8c: case 'C': case 'U': push_text(reader, 1); break;
    case 0x8d: case 0x8e: push_text(reader, 8); break;
    case ')': push_tuple(reader, 0); break;
    case 0x85: push_tuple(reader, 1); break;
    case 0x86: push_tuple(reader, 2); break;
    case 0x87: push_tuple(reader, 3); break;
    case 't': push_marked(reader, FC_PICKLE_TUPLE); break;
    case ']': push(reader, fc_pickle_new(reader, FC_PICKLE_LIST)); break;
    case 'l': push_marked(reader, FC_PICKLE_LIST); break;
    case '}': push(reader, fc_pickle_new(reader, FC_PICKLE_DICT)); break;
    case 'd': push_marked(reader, FC_PICKLE_DICT); break;
    case 'a': add_popped(reader, FC_PICKLE_LIST, 1); break;
    case 'e': add_marked(reader, FC_PICKLE_LIST); break;
    case 's': add_popped(reader, FC_PICKLE_DICT, 2); break;
    case 'u': add_marked(reader, FC_PICKLE_DICT); break;
    case 'q': put(reader, take_number(reader, 1)); break;
    case 'r': put(reader, take_number(reader, 4)); break;
    case 0x94: put(reader, reader->memo->count); break;
    case 'h': get(reader, take_number(reader, 1)); break;
    case 'j': get(reader, take_number(reader, 4)); break;
    case 'c': push_global(reader); break;
    case 0x93: push_stack_global(reader); break;
    case 'R': case 0x81: call(reader); break;
    case 'b': build(reader); break;
    case 'Q': persistent(reader); break;
    default: refuse_opcode(reader, opcode);
    }
}

/* -- The whole ------------------------------------------------------------------------------- */

/* Runs opcodes up to STOP, which leaves one value. */
static void run(fc_pickle_reader *reader)
{
    while (reader->status == FLATCLIP_OK) {
        reader->opcode_at = (size_t)(reader->at - reader->data);
        const unsigned char *opcode = take(reader, 1);
        if (opcode && *opcode == '.') {
            reader->pickle->root = pop(reader);
            if (reader->height)
                fc_pickle_refuse(reader, "ends with %zu values left over", reader->height);
            return;
        }
        if (opcode)
            run_opcode(reader, *opcode);
    }
}

flatclip_status fc_pickle_read(const char *name, const unsigned char *data, size_t bytes,
                               fc_pickle **pickle, size_t *used, flatclip_error *err)
{
    fc_pickle_reader reader = { .name = name, .data = data, .at = data, .end = data + bytes,
                                .status = FLATCLIP_OK, .err = err };
    *pickle = NULL;
    *used = 0;
    reader.pickle = calloc(1, sizeof *reader.pickle);
    if (!reader.pickle)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the pickle of %.200s", name);
    reader.memo = fc_pickle_new(&reader, FC_PICKLE_LIST);
    reader.pickle->storages = fc_pickle_new(&reader, FC_PICKLE_LIST);
    run(&reader);
    free(reader.stack);
    if (reader.status != FLATCLIP_OK) {
        fc_pickle_close(reader.pickle);
        return reader.status;
    }
    *pickle = reader.pickle;
    *used = (size_t)(reader.at - data);
    return FLATCLIP_OK;
}
