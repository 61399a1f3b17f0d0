/* Reading Python pickles as data: nothing in one can run, whatever it asks for.
 *
 * A pickle is a program for a stack machine. This one knows the opcodes that torch.save and
 * TorchScript write, and builds values of the kinds below and nothing else. The names that a pickle
 * may call upon are a short list (docs/checkpoints.md); any other is refused by name. Every pickle
 * is untrusted: its values take at most a set amount of memory, the reader does not recurse, and
 * what refers to itself is harmless to those who bound their own walk (fc_torch_state_read does).*/
#ifndef FC_PICKLE_H
#define FC_PICKLE_H

#include "engine/base/safetensors.h"

typedef enum {
    FC_PICKLE_NONE,
    FC_PICKLE_BOOL,
    FC_PICKLE_INT,      /* fits 64 bits */
    FC_PICKLE_LONG,     /* does not fit: text holds its bytes, little-endian two's complement */
    FC_PICKLE_FLOAT,
    FC_PICKLE_TEXT,     /* str or bytes */
    FC_PICKLE_TUPLE,
    FC_PICKLE_LIST,
    FC_PICKLE_DICT,     /* OrderedDict, too */
    FC_PICKLE_STORAGE,
    FC_PICKLE_TENSOR,
    FC_PICKLE_BAG,      /* an object of a TorchScript class: items are its attributes */
    FC_PICKLE_NAME      /* a global of the allowed list that was not called */
} fc_pickle_kind;

typedef struct fc_pickle_value fc_pickle_value;

struct fc_pickle_value {
    fc_pickle_kind kind;
    int64_t integer;                /* BOOL, INT */
    double real;                    /* FLOAT */
    const char *text;               /* TEXT, LONG, NAME, and the class of a BAG; NUL at its end */
    size_t length;                  /* of text, without that NUL */
    fc_pickle_value **item;         /* TUPLE, LIST; DICT and BAG: key, value, key, value, ... */
    size_t count;                   /* of item */
    /* STORAGE: what a persistent id says: its key is text. */
    fc_dtype dtype;
    uint64_t elements;
    /* TENSOR: a view of storage; all counts in elements. */
    const fc_pickle_value *storage;
    uint64_t offset;
    int rank;
    uint64_t dim[FC_MAX_RANK];
    uint64_t stride[FC_MAX_RANK];   /* negative ones are refused */
};

typedef struct fc_pickle fc_pickle;

/* Reads the pickle that begins at data and ends at its STOP; *used is its length. name stands in
 * messages. On success *pickle is the caller's until fc_pickle_close, and holds copies of all that
 * it needs of data.
 * Errors: FORMAT (says at which byte, and names the global), MEMORY where the values would take
 * more than the limit of 48 MiB, or malloc fails. */
flatclip_status fc_pickle_read(const char *name, const unsigned char *data, size_t bytes,
                               fc_pickle **pickle, size_t *used, flatclip_error *err);
const fc_pickle_value *fc_pickle_root(const fc_pickle *pickle);

/* Every storage that the pickle mentions, in its order, one entry a mention: storage [*count]. */
const fc_pickle_value *const *fc_pickle_storages(const fc_pickle *pickle, size_t *count);
void fc_pickle_close(fc_pickle *pickle); /* NULL is allowed */

#endif
