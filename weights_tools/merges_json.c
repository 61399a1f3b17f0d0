/* Merges and vocabularies of Hugging Face, which are JSON. */
#include "weights_tools/merges_parts.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"

enum {
    FIRST_MERGED = 512,         /* ids below are the bytes, alone and at the end of a word */
    MERGE_LIMIT = 1024          /* bytes of one merge; the longest in use has 65 */
};

/* -- Merges ---------------------------------------------------------------------------------- */

/* The merges as they are written one after the other. */
typedef struct {
    const char *name;
    fc_merges *merges;
    size_t capacity;
    flatclip_error *err;
} writer;

static flatclip_status write_part(writer *to, const char *part, char after)
{
    fc_merges *merges = to->merges;
    const size_t length = part ? strlen(part) : MERGE_LIMIT;
    if (length >= MERGE_LIMIT)
        return fc_fail(to->err, FLATCLIP_ERR_FORMAT,
                       "%.150s has a merge that is neither a text nor a pair of texts", to->name);
    if (length + 1 > to->capacity - merges->bytes) {
        const size_t capacity = 2 * to->capacity + MERGE_LIMIT;
        char *grown = realloc(merges->text, capacity);
        if (!grown)
            return fc_fail(to->err, FLATCLIP_ERR_MEMORY, "no memory for the merges of %.200s",
                           to->name);
        merges->text = grown;
        to->capacity = capacity;
    }
    memcpy(merges->text + merges->bytes, part, length);
    merges->bytes += length;
    merges->text[merges->bytes++] = after;
    return FLATCLIP_OK;
}

static flatclip_status write_merges(writer *to, const cJSON *list)
{
    const cJSON *merge;
    cJSON_ArrayForEach(merge, list) {
        if (cJSON_IsArray(merge) && cJSON_GetArraySize(merge) == 2) {
            FC_TRY(write_part(to, cJSON_GetStringValue(merge->child), ' '));
            FC_TRY(write_part(to, cJSON_GetStringValue(merge->child->next), '\n'));
        } else {
            FC_TRY(write_part(to, cJSON_GetStringValue(merge), '\n'));
        }
    }
    return fc_merges_check(to->name, to->merges->text, to->merges->bytes, to->err);
}

/* -- Vocabulary ------------------------------------------------------------------------------ */

/* Whether token is what the merge "i n\n" makes: "in". */
static int is_merged(const char *token, const char *merge)
{
    const size_t first = (size_t)(strchr(merge, ' ') - merge);
    const size_t second = (size_t)(strchr(merge, '\n') - merge) - first - 1;
    return strlen(token) == first + second && !memcmp(token, merge, first) &&
           !memcmp(token + first, merge + first + 1, second);
}

/* line [FC_CLIP_MERGES] says where each merge begins. Every merge must have its id. */
static flatclip_status compare_ids(const char *name, const cJSON *vocabulary,
                                   const char *const *line, flatclip_error *err)
{
    const cJSON *entry;
    int found = 0, entries = 0;
    cJSON_ArrayForEach(entry, vocabulary) {
        uint64_t id;
        if (!fc_json_whole(entry, &id) || id >= FC_CLIP_VOCABULARY)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.120s: the id of \"%.40s\" is not a number below %d: it is no "
                           "vocabulary of CLIP", name, entry->string, FC_CLIP_VOCABULARY);
        entries++;
        if (id < FIRST_MERGED || id >= FIRST_MERGED + FC_CLIP_MERGES)
            continue;
        if (!is_merged(entry->string, line[id - FIRST_MERGED]))
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.120s: id %d is \"%.40s\", but merge number %d makes another token: "
                           "vocabulary and merges do not belong together", name, (int)id,
                           entry->string, (int)id - FIRST_MERGED);
        found++;
    }
    if (found != FC_CLIP_MERGES)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.120s has %d entries, %d of them from merges, expected %d and %d", name,
                       entries, found, FC_CLIP_VOCABULARY, FC_CLIP_MERGES);
    return FLATCLIP_OK;
}

static flatclip_status check_ids(const char *name, const cJSON *vocabulary,
                                 const fc_merges *merges, flatclip_error *err)
{
    const char **line = malloc(FC_CLIP_MERGES * sizeof *line);
    if (!line)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the vocabulary of %.200s", name);
    const char *at = merges->text;
    for (int i = 0; i < FC_CLIP_MERGES; i++) {
        line[i] = at;
        at = strchr(at, '\n') + 1;
    }
    const flatclip_status status = compare_ids(name, vocabulary, line, err);
    free(line);
    return status;
}

flatclip_status fc_merges_check_vocabulary(const char *name, const char *text, size_t bytes,
                                           const fc_merges *merges, flatclip_error *err)
{
    cJSON *root;
    FC_TRY(fc_json_parse(name, text, bytes, FC_JSON_ANY_NUMBERS, &root, err));
    const flatclip_status status =
        cJSON_IsObject(root) ? check_ids(name, root, merges, err)
                             : fc_fail(err, FLATCLIP_ERR_FORMAT, "%.200s is no JSON object", name);
    cJSON_Delete(root);
    return status;
}

/* -- Both ------------------------------------------------------------------------------------ */

static flatclip_status refuse_kind(const char *name, const char *key, const char *found,
                                   const char *expected, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.120s: %s is %.40s, expected %s: it is no tokenizer of CLIP", name, key,
                   found ? found : "missing", expected);
}

static flatclip_status read_tokenizer(const char *name, const cJSON *root, fc_merges *merges,
                                      flatclip_error *err)
{
    writer to = { name, merges, 0, err };
    const cJSON *model = fc_json_get(root, "model");
    const cJSON *vocabulary = fc_json_get(model, "vocab");
    const char *type = cJSON_GetStringValue(fc_json_get(model, "type"));
    const char *suffix = cJSON_GetStringValue(fc_json_get(model, "end_of_word_suffix"));
    if (type && strcmp(type, "BPE")) /* the oldest files do not say it */
        return refuse_kind(name, "model.type", type, "BPE", err);
    if (!suffix || strcmp(suffix, "</w>"))
        return refuse_kind(name, "model.end_of_word_suffix", suffix, "</w>", err);
    if (!cJSON_IsArray(fc_json_get(model, "merges")) || !cJSON_IsObject(vocabulary))
        return refuse_kind(name, "model.merges or model.vocab", NULL, "both", err);
    FC_TRY(write_merges(&to, fc_json_get(model, "merges")));
    return check_ids(name, vocabulary, merges, err);
}

flatclip_status fc_merges_from_json(const char *name, const char *text, size_t bytes,
                                    fc_merges *merges, flatclip_error *err)
{
    cJSON *root;
    FC_TRY(fc_json_parse(name, text, bytes, FC_JSON_ANY_NUMBERS, &root, err));
    const flatclip_status status = read_tokenizer(name, root, merges, err);
    cJSON_Delete(root);
    return status;
}
