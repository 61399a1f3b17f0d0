/* Lists of paths in memory; see path_list.h. */
#include "cli/path_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/error.h"

struct fc_path_block {
    fc_path_block *next;
    size_t used, capacity; /* bytes of text */
    char text[];
};

enum { BLOCK_BYTES = 64 * 1024, FIRST_CAPACITY = 256 };

static flatclip_status no_memory(const fc_path_list *list, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for more than %zu paths", list->count);
}

/* Room for bytes of text that will not move; NULL without memory. */
static char *take_text(fc_path_list *list, size_t bytes)
{
    fc_path_block *block = list->blocks;

    if (!block || block->capacity - block->used < bytes) {
        const size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = malloc(sizeof *block + capacity);
        if (!block)
            return NULL;
        block->next = list->blocks;
        block->used = 0;
        block->capacity = capacity;
        list->blocks = block;
    }
    block->used += bytes;
    return block->text + block->used - bytes;
}

flatclip_status fc_path_list_borrow(fc_path_list *list, const char *path, flatclip_error *err)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : FIRST_CAPACITY;
        const char **paths = realloc(list->paths, capacity * sizeof *paths);
        if (!paths)
            return no_memory(list, err);
        list->paths = paths;
        list->capacity = capacity;
    }
    list->paths[list->count++] = path;
    return FLATCLIP_OK;
}

flatclip_status fc_path_list_join(fc_path_list *list, const char *folder, const char *name,
                                  flatclip_error *err)
{
    const size_t folder_len = strlen(folder), name_len = strlen(name);
    const size_t slash = folder_len > 0 && folder[folder_len - 1] != '/';
    char *text = take_text(list, folder_len + slash + name_len + 1);

    if (!text)
        return no_memory(list, err);
    memcpy(text, folder, folder_len);
    if (slash)
        text[folder_len] = '/';
    memcpy(text + folder_len + slash, name, name_len + 1);
    return fc_path_list_borrow(list, text, err);
}

/* strcmp compares as unsigned char, whatever the locale. */
static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void fc_path_list_sort(fc_path_list *list, size_t first)
{
    if (first < list->count)
        qsort(list->paths + first, list->count - first, sizeof *list->paths, compare_paths);
}

void fc_path_list_free(fc_path_list *list)
{
    while (list->blocks) {
        fc_path_block *next = list->blocks->next;
        free(list->blocks);
        list->blocks = next;
    }
    free(list->paths);
    memset(list, 0, sizeof *list);
}

/* The whole of file as a block of its own, with a NUL behind it; NULL and errno on failure. */
static fc_path_block *read_block(FILE *file)
{
    size_t capacity = BLOCK_BYTES;
    fc_path_block *block = malloc(sizeof *block + capacity);

    if (block)
        *block = (fc_path_block){ NULL, 0, 0 };
    while (block) {
        block->used += fread(block->text + block->used, 1, capacity - 1 - block->used, file);
        if (block->used < capacity - 1)
            break;
        capacity *= 2;
        fc_path_block *larger = realloc(block, sizeof *block + capacity);
        if (!larger)
            free(block);
        block = larger;
    }
    if (block && ferror(file)) {
        free(block);
        return NULL;
    }
    if (block) {
        block->text[block->used] = '\0';
        block->capacity = block->used;
    }
    return block;
}

/* Cuts text into names in place. */
static flatclip_status add_names(fc_path_list *list, char *text, size_t bytes, int only_nul,
                                 flatclip_error *err)
{
    const char end = only_nul || memchr(text, '\0', bytes) ? '\0' : '\n';
    char *const stop = text + bytes;

    while (text < stop) {
        char *cut = memchr(text, end, (size_t)(stop - text));
        char *const next = cut ? cut + 1 : stop;
        if (!cut)
            cut = stop;
        if (end == '\n' && cut > text && cut[-1] == '\r')
            cut--;
        *cut = '\0';
        if (*text)
            FC_TRY(fc_path_list_borrow(list, text, err));
        text = next;
    }
    return FLATCLIP_OK;
}

flatclip_status fc_path_list_read(fc_path_list *list, const char *file, int only_nul,
                                  flatclip_error *err)
{
    const int standard = strcmp(file, "-") == 0;
    FILE *stream = standard ? stdin : fopen(file, "rb");
    fc_path_block *block = stream ? read_block(stream) : NULL;
    const int reason = errno;

    if (stream && !standard)
        fclose(stream);
    if (!block)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot read the list %s: %s",
                       standard ? "on standard input" : file, strerror(reason));
    block->next = list->blocks;
    list->blocks = block;
    return add_names(list, block->text, block->used, only_nul, err);
}
