/* What the parts of the pickle reader share: pickle.c runs the opcodes, pickle_names.c knows the
 * names that a pickle may call upon and what calling them makes, pickle_values.c holds values. */
#ifndef FC_PICKLE_PARTS_H
#define FC_PICKLE_PARTS_H

#include "weights_tools/pickle.h"

enum { FC_PICKLE_LIMIT = 48 << 20 }; /* bytes that the values of one pickle may take */

typedef struct fc_pickle_chunk fc_pickle_chunk;

struct fc_pickle {
    fc_pickle_chunk *chunks;            /* all values lie here; the latest comes first */
    size_t taken;                       /* bytes of all chunks */
    const fc_pickle_value *root;
    fc_pickle_value *storages;          /* a list of all that were mentioned */
};

/* The pickle being read. The first failure ends it: fc_pickle_refuse and the allocator keep it in
 * status and err, and what follows is not run. */
typedef struct {
    const char *name;                   /* for messages */
    const unsigned char *data, *at, *end;
    size_t opcode_at;                   /* offset of the opcode that is run */
    fc_pickle *pickle;
    fc_pickle_value **stack;            /* [height]; NULL stands for a mark */
    size_t height, capacity;
    fc_pickle_value *memo;              /* a LIST */
    flatclip_status status;
    flatclip_error *err;
} fc_pickle_reader;

/* Makes "NAME: the pickle ... (at byte N)" the failure, if there is none; returns NULL. */
__attribute__((format(printf, 2, 3)))
void *fc_pickle_refuse(fc_pickle_reader *reader, const char *format, ...);

/* Memory that lives as long as the pickle, zeroed; NULL after a failure. */
void *fc_pickle_allocate(fc_pickle_reader *reader, size_t bytes);

/* A value of a kind; one whose text is a copy of length bytes; one whose items are a copy of
 * item [count]. NULL after a failure. */
fc_pickle_value *fc_pickle_new(fc_pickle_reader *reader, fc_pickle_kind kind);
fc_pickle_value *fc_pickle_new_text(fc_pickle_reader *reader, fc_pickle_kind kind,
                                    const void *text, size_t length);
fc_pickle_value *fc_pickle_new_items(fc_pickle_reader *reader, fc_pickle_kind kind,
                                     fc_pickle_value *const *item, size_t count);

/* Appends an item to a value that has some. */
void fc_pickle_append(fc_pickle_reader *reader, fc_pickle_value *list, fc_pickle_value *item);

/* The global MODULE.NAME, if a checkpoint may name it. */
fc_pickle_value *fc_pickle_name(fc_pickle_reader *reader, const char *module, size_t module_bytes,
                                const char *name, size_t name_bytes);

/* What calling a name with a tuple of arguments makes (REDUCE and NEWOBJ); what a persistent id
 * stands for: a storage. */
fc_pickle_value *fc_pickle_call(fc_pickle_reader *reader, const fc_pickle_value *callee,
                                const fc_pickle_value *arguments);
fc_pickle_value *fc_pickle_persistent(fc_pickle_reader *reader, const fc_pickle_value *id);

/* Gives an object its state (BUILD). */
void fc_pickle_build(fc_pickle_reader *reader, fc_pickle_value *object,
                     const fc_pickle_value *state);

#endif
