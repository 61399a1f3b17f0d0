/* Weights in several files, listed by an index: NAME.index.json, as transformers writes it.
 *
 * Its weight_map says in which file, of the same folder, each tensor is. The files are sources of
 * their own. */
#define _GNU_SOURCE
#include "weights_tools/weight_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "weights_tools/small_file.h"

enum {
    INDEX_LIMIT = 4 << 20,          /* bytes; real ones have some 10,000 */
    SHARD_LIMIT = 1000
};

typedef struct {
    fc_weight_source **shard;       /* [shards] */
    size_t shards;
    size_t *first;                  /* [shards]: the index of its first tensor among all */
} shard_list;

/* The shard that tensor index of all belongs to. */
static size_t shard_of(const shard_list *list, size_t index)
{
    size_t i = list->shards - 1;
    while (index < list->first[i])
        i--;
    return i;
}

static const fc_tensor *at(const fc_weight_source *source, size_t index)
{
    const shard_list *list = source->state;
    const size_t i = shard_of(list, index);
    return list->shard[i]->at(list->shard[i], index - list->first[i]);
}

static flatclip_status read_floats(const fc_weight_source *source, const fc_tensor *tensor,
                                   uint64_t first, uint64_t count, float *out, flatclip_error *err)
{
    const shard_list *list = source->state;
    const size_t i = shard_of(list, fc_weight_source_find(source, tensor->name));
    return list->shard[i]->read(list->shard[i], tensor, first, count, out, err);
}

static const char *file(const fc_weight_source *source, size_t index)
{
    const shard_list *list = source->state;
    return index < list->shards ? list->shard[index]->path : NULL;
}

static void close_shards(fc_weight_source *source)
{
    shard_list *list = source->state;
    for (size_t i = 0; i < list->shards; i++)
        fc_weight_source_close(list->shard[i]);
    free(list->shard);
    free(list->first);
    free(list);
}

/* -- Opening --------------------------------------------------------------------------------- */

static flatclip_status no_memory(const fc_weight_source *source, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", source->path);
}

static flatclip_status read_index(const fc_weight_source *source, cJSON **root,
                                  flatclip_error *err)
{
    const char *slash = strrchr(source->path, '/');
    fc_small_file file;
    *root = NULL;
    flatclip_status status = fc_small_file_read(source->path, slash ? slash + 1 : source->path,
                                                INDEX_LIMIT, &file, err);
    if (status == FLATCLIP_OK)
        status = fc_json_parse(source->path, file.text ? file.text : "", file.bytes,
                               FC_JSON_ANY_NUMBERS, root, err);
    fc_small_file_free(&file);
    return status;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The file names of the map, sorted and each once: names [*count], which is the caller's to free;
 * the names are the map's. */
static flatclip_status list_files(const fc_weight_source *source, const cJSON *map,
                                  const char ***names, size_t *count, flatclip_error *err)
{
    const cJSON *entry;
    const size_t entries = cJSON_IsObject(map) ? (size_t)cJSON_GetArraySize(map) : 0;
    size_t all = 0;
    if (!entries)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s has no weight_map: it is not the index of a checkpoint",
                       source->path);
    *names = malloc(entries * sizeof **names);
    if (!*names)
        return no_memory(source, err);
    cJSON_ArrayForEach(entry, map) {
        const char *name = cJSON_GetStringValue(entry);
        if (!name || !name[0] || strchr(name, '/') || name[0] == '.')
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.120s: tensor %.60s is in \"%.60s\", expected a file of the same "
                           "folder", source->path, entry->string, name ? name : "(no text)");
        (*names)[all++] = name;
    }
    qsort(*names, all, sizeof **names, compare_texts);
    *count = 0;
    for (size_t i = 0; i < all; i++)
        if (!i || strcmp((*names)[i], (*names)[*count - 1]))
            (*names)[(*count)++] = (*names)[i];
    if (*count > SHARD_LIMIT)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s lists %zu files, at most %d are read",
                       source->path, *count, SHARD_LIMIT);
    return FLATCLIP_OK;
}

static flatclip_status open_shard(const fc_weight_source *source, const char *name,
                                  fc_weight_source **shard, flatclip_error *err)
{
    const char *slash = strrchr(source->path, '/');
    char *path;
    if (asprintf(&path, "%.*s%s", slash ? (int)(slash + 1 - source->path) : 0, source->path,
                 name) < 0)
        return no_memory(source, err);
    const size_t length = strlen(name);
    const flatclip_status status = length > 5 && !strcmp(name + length - 5, ".json")
        ? fc_fail(err, FLATCLIP_ERR_FORMAT, "%.120s lists %.80s, which is an index itself",
                  source->path, name)
        : fc_weight_source_open(path, shard, err);
    free(path);
    return status;
}

static flatclip_status open_shards(fc_weight_source *source, const char *const *names,
                                   size_t count, flatclip_error *err)
{
    shard_list *list = source->state;
    list->shard = calloc(count, sizeof *list->shard);
    list->first = calloc(count, sizeof *list->first);
    if (!list->shard || !list->first)
        return no_memory(source, err);
    for (size_t i = 0; i < count; i++) {
        FC_TRY(open_shard(source, names[i], &list->shard[i], err));
        list->first[i] = source->count;
        list->shards++;
        source->count += list->shard[i]->count;
    }
    return FLATCLIP_OK;
}

static int compare_name_with_text(const void *name, const void *text)
{
    return strcmp(name, *(const char *const *)text);
}

/* Every tensor of the map must be in the file that the map says; names are in the shards' order. */
static flatclip_status check_map(const fc_weight_source *source, const cJSON *map,
                                 const char *const *names, flatclip_error *err)
{
    const shard_list *list = source->state;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, map) {
        const char *name = cJSON_GetStringValue(entry);
        const char *const *found = bsearch(name, names, list->shards, sizeof *names,
                                           compare_name_with_text);
        const fc_weight_source *shard = list->shard[found - names];
        if (fc_weight_source_find(shard, entry->string) == shard->count)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.120s says that tensor %.60s is in %.60s, but it is not",
                           source->path, entry->string, name);
    }
    return FLATCLIP_OK;
}

flatclip_status fc_source_shards_open(fc_weight_source *source, flatclip_error *err)
{
    cJSON *root;
    const char **names = NULL;
    size_t count = 0;
    source->state = calloc(1, sizeof(shard_list));
    if (!source->state)
        return no_memory(source, err);
    source->at = at;
    source->read = read_floats;
    source->file = file;
    source->close = close_shards;
    flatclip_status status = read_index(source, &root, err);
    const cJSON *map = fc_json_get(root, "weight_map");
    if (status == FLATCLIP_OK)
        status = list_files(source, map, &names, &count, err);
    if (status == FLATCLIP_OK)
        status = open_shards(source, names, count, err);
    if (status == FLATCLIP_OK)
        status = check_map(source, map, names, err);
    free(names);
    cJSON_Delete(root);
    return status;
}
