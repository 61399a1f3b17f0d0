/* JSON as a tree.
 *
 * cJSON gives NULL for bad text and for a lack of memory alike, reads more than JSON (controls,
 * numbers like 01, anything after the end) and keeps both of two equal keys. So the text is checked
 * first: what cJSON then cannot parse, it had no memory for. Its global hooks and error pointer are
 * neither set nor read. */
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

/* -- Keys that are there twice --------------------------------------------------------------- */

/* Members of the largest object in value; its depth has been checked. */
static size_t largest_object(const cJSON *value)
{
    const cJSON *child;
    size_t members = 0, largest = 0;
    cJSON_ArrayForEach(child, value) {
        const size_t inside = largest_object(child);
        largest = inside > largest ? inside : largest;
        members++;
    }
    return cJSON_IsObject(value) && members > largest ? members : largest;
}

static int compare_keys(const void *left, const void *right)
{
    const char *const *a = left, *const *b = right;
    return strcmp(*a, *b);
}

/* A key that an object in value has twice, or NULL. keys has room for the largest object. */
static const char *find_twin(const cJSON *value, const char **keys)
{
    const cJSON *child;
    size_t count = 0;
    if (cJSON_IsObject(value)) {
        cJSON_ArrayForEach(child, value)
            keys[count++] = child->string;
        qsort(keys, count, sizeof *keys, compare_keys);
        for (size_t i = 1; i < count; i++)
            if (!strcmp(keys[i - 1], keys[i]))
                return keys[i];
    }
    cJSON_ArrayForEach(child, value) {
        const char *twin = find_twin(child, keys);
        if (twin)
            return twin;
    }
    return NULL;
}

static flatclip_status refuse_twins(const char *name, const cJSON *root, flatclip_error *err)
{
    const char **keys = calloc(largest_object(root) + 1, sizeof *keys);
    if (!keys)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to check the keys of %.200s", name);
    const char *twin = find_twin(root, keys);
    free(keys);
    if (twin)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: has the key %.80s twice in an object",
                       name, twin);
    return FLATCLIP_OK;
}

/* -- Parsing --------------------------------------------------------------------------------- */

flatclip_status fc_json_parse(const char *name, const char *text, size_t bytes,
                              fc_json_numbers numbers, cJSON **root, flatclip_error *err)
{
    fc_json_fault fault;
    *root = NULL;
    if (!fc_json_check(text, bytes, numbers, &fault))
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: no valid JSON at byte %zu, line %zu: %s",
                       name, fault.byte, fault.line, fault.what);
    cJSON *tree = cJSON_ParseWithLength(text, bytes);
    if (!tree)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the JSON of %.200s", name);
    const flatclip_status status = refuse_twins(name, tree, err);
    if (status == FLATCLIP_OK)
        *root = tree;
    else
        cJSON_Delete(tree);
    return status;
}

/* -- Values ---------------------------------------------------------------------------------- */

const cJSON *fc_json_get(const cJSON *object, const char *key)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

int fc_json_whole(const cJSON *value, uint64_t *number)
{
    static const double LIMIT = 9007199254740992.0; /* 2^53 */
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0 && value->valuedouble < LIMIT) ||
        (double)(uint64_t)value->valuedouble != value->valuedouble)
        return 0;
    *number = (uint64_t)value->valuedouble;
    return 1;
}
