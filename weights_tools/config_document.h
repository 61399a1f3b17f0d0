/* A configuration file of a public checkpoint, as a tree of JSON.
 *
 * A document keeps its first failure: later calls on it do nothing, so that a run of them needs one
 * check at its end. What asks for something that we do not do is refused by name. */
#ifndef FC_CONFIG_DOCUMENT_H
#define FC_CONFIG_DOCUMENT_H

#include "engine/base/json.h"

typedef struct {
    char *path;
    const char *name;           /* without folder */
    cJSON *root;                /* NULL where the file is absent */
    flatclip_status status;
    flatclip_error *err;        /* the caller's, filled by the first failure */
} fc_document;

/* Opens name in the folder of the file beside. An absent file is no failure. */
fc_document fc_doc_open_beside(const char *beside, const char *name, flatclip_error *err);

/* The same of a text in memory. */
fc_document fc_doc_parse(const char *name, const char *text, size_t bytes, flatclip_error *err);

/* Frees the document's tree and returns its status: IO, FORMAT, MEMORY or OK. */
flatclip_status fc_doc_close(fc_document *doc);

/* Makes "PATH: message" the document's failure, if it has none. */
__attribute__((format(printf, 2, 3)))
void fc_doc_refuse(fc_document *doc, const char *format, ...);

/* The positive whole number under key of object; 0 where it is absent or null. */
int fc_doc_int(fc_document *doc, const cJSON *object, const char *key);

/* A side under key, given as n, as [n, n] or as an object with equal sides; 0 if it is absent. */
int fc_doc_side(fc_document *doc, const cJSON *object, const char *key);

/* The string under key, or what stands for it if it is absent. */
const char *fc_doc_text(const cJSON *object, const char *key, const char *otherwise);

/* Fills triple from a list of three numbers under key, and leaves it alone where that is absent. */
void fc_doc_triple(fc_document *doc, const cJSON *object, const char *key, float triple[3]);

/* Refuses a key whose presence with any but an empty, false, zero or null value changes the
 * model; a text that is not the expected one; anything but true. Absent keys are fine. */
void fc_doc_refuse_if_set(fc_document *doc, const cJSON *object, const char *key);
void fc_doc_refuse_unless(fc_document *doc, const cJSON *object, const char *key,
                          const char *expected);
void fc_doc_refuse_unless_true(fc_document *doc, const cJSON *object, const char *key);

/* Returns heads, and refuses them where the width is told and is not 64 times as much. */
int fc_doc_heads(fc_document *doc, const char *tower, int width, int heads);

#endif
