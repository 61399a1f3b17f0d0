/* Reading JSON values, with every failure kept in the document. */
#define _POSIX_C_SOURCE 200809L
#include "weights_tools/config_document.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clip_config.h"
#include "weights_tools/small_file.h"

enum { FILE_LIMIT = 1 << 20 }; /* bytes; real ones have a few thousand */

void fc_doc_refuse(fc_document *doc, const char *format, ...)
{
    char what[180];
    va_list args;
    if (doc->status != FLATCLIP_OK)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    doc->status = fc_fail(doc->err, FLATCLIP_ERR_FORMAT, "%.110s: %s", doc->path, what);
}

/* -- Opening --------------------------------------------------------------------------------- */

static void parse(fc_document *doc, const char *text, size_t bytes)
{
    doc->status = fc_json_parse(doc->path, text, bytes, FC_JSON_ANY_NUMBERS, &doc->root, doc->err);
    if (doc->root && !cJSON_IsObject(doc->root))
        fc_doc_refuse(doc, "is no JSON object");
}

fc_document fc_doc_open_beside(const char *beside, const char *name, flatclip_error *err)
{
    fc_document doc = { NULL, name, NULL, FLATCLIP_OK, err };
    fc_small_file file;
    doc.status = fc_small_file_read(beside, name, FILE_LIMIT, &file, err);
    doc.path = file.path;
    file.path = NULL; /* it is the document's now */
    if (doc.status == FLATCLIP_OK && file.text)
        parse(&doc, file.text, file.bytes);
    fc_small_file_free(&file);
    return doc;
}

fc_document fc_doc_parse(const char *name, const char *text, size_t bytes, flatclip_error *err)
{
    fc_document doc = { strdup(name), name, NULL, FLATCLIP_OK, err };
    if (doc.path)
        parse(&doc, text, bytes);
    else
        doc.status = fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", name);
    return doc;
}

flatclip_status fc_doc_close(fc_document *doc)
{
    cJSON_Delete(doc->root);
    free(doc->path);
    return doc->status;
}

/* -- Values ---------------------------------------------------------------------------------- */

/* The positive whole number that value is, or 0. */
static int positive_int(const cJSON *value)
{
    uint64_t number;
    return fc_json_whole(value, &number) && number <= INT_MAX ? (int)number : 0;
}

int fc_doc_int(fc_document *doc, const cJSON *object, const char *key)
{
    const cJSON *value = fc_json_get(object, key);
    if (!value || cJSON_IsNull(value))
        return 0;
    const int number = positive_int(value);
    if (!number)
        fc_doc_refuse(doc, "%s is not a positive whole number", key);
    return number;
}

int fc_doc_side(fc_document *doc, const cJSON *object, const char *key)
{
    const cJSON *value = fc_json_get(object, key);
    int width, height;
    if (cJSON_IsArray(value)) {
        width = positive_int(cJSON_GetArrayItem(value, 0));
        height = cJSON_GetArraySize(value) == 2 ? positive_int(cJSON_GetArrayItem(value, 1)) : 0;
    } else if (cJSON_IsObject(value)) {
        width = fc_doc_int(doc, value, "width");
        height = fc_doc_int(doc, value, "height");
    } else {
        return fc_doc_int(doc, object, key);
    }
    if (!width || width != height)
        fc_doc_refuse(doc, "%s is not a square, and only square images are run", key);
    return width;
}

const char *fc_doc_text(const cJSON *object, const char *key, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(fc_json_get(object, key));
    return text ? text : otherwise;
}

void fc_doc_triple(fc_document *doc, const cJSON *object, const char *key, float triple[3])
{
    const cJSON *value = fc_json_get(object, key);
    if (!value || cJSON_IsNull(value))
        return;
    for (int i = 0; i < 3; i++) {
        const cJSON *number = cJSON_GetArrayItem(value, i);
        if (!cJSON_IsArray(value) || cJSON_GetArraySize(value) != 3 || !cJSON_IsNumber(number)) {
            fc_doc_refuse(doc, "%s is not a list of three numbers", key);
            return;
        }
        triple[i] = (float)number->valuedouble;
    }
}

void fc_doc_refuse_if_set(fc_document *doc, const cJSON *object, const char *key)
{
    const cJSON *value = fc_json_get(object, key);
    if (!value || cJSON_IsNull(value) || cJSON_IsFalse(value) ||
        (cJSON_IsNumber(value) && cJSON_GetNumberValue(value) == 0) ||
        (cJSON_IsObject(value) && !value->child))
        return;
    fc_doc_refuse(doc, "asks for %s, which is not supported", key);
}

void fc_doc_refuse_unless(fc_document *doc, const cJSON *object, const char *key,
                          const char *expected)
{
    const char *text = fc_doc_text(object, key, expected);
    if (strcmp(text, expected))
        fc_doc_refuse(doc, "has %s %.40s, only %s is supported", key, text, expected);
}

void fc_doc_refuse_unless_true(fc_document *doc, const cJSON *object, const char *key)
{
    const cJSON *value = fc_json_get(object, key);
    if (value && !cJSON_IsNull(value) && !cJSON_IsTrue(value))
        fc_doc_refuse(doc, "has %s false, only true is supported", key);
}

int fc_doc_heads(fc_document *doc, const char *tower, int width, int heads)
{
    if (width && heads && (width % FC_HEAD_DIM || width / FC_HEAD_DIM != heads))
        fc_doc_refuse(doc, "the %s tower has %d heads for a width of %d; only heads of size %d "
                      "are run", tower, heads, width, FC_HEAD_DIM);
    return heads;
}
