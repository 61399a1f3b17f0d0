/* Grouping by name; see region_groups.h. */
#include "cli/region_groups.h"

#include <stdlib.h>
#include <string.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_border(char c)
{
    return c == '.' || c == ' ' || c == '\0';
}

/* "resblocks.11.ln_1" becomes "resblocks.*.ln_1". */
static void generalise(char *out, size_t bytes, const char *name)
{
    size_t used = 0;

    for (const char *c = name; *c && used + 1 < bytes;) {
        size_t digits = 0;
        if (c == name || is_border(c[-1])) {
            while (is_digit(c[digits]))
                digits++;
        }
        if (digits > 0 && is_border(c[digits])) {
            out[used++] = '*';
            c += digits;
        } else {
            out[used++] = *c++;
        }
    }
    out[used] = '\0';
}

static fc_region_group *append(fc_region_groups *groups)
{
    if (groups->count == groups->capacity) {
        const size_t capacity = groups->capacity ? groups->capacity * 2 : 32;
        fc_region_group *larger = realloc(groups->groups, capacity * sizeof *larger);
        if (!larger)
            return NULL;
        groups->groups = larger;
        groups->capacity = capacity;
    }
    fc_region_group *group = &groups->groups[groups->count++];
    memset(group, 0, sizeof *group);
    return group;
}

void fc_region_groups_add(void *user, const flatclip_region *region)
{
    fc_region_groups *groups = user;
    fc_region_group *group = NULL;
    char name[sizeof group->name];

    generalise(name, sizeof name, region->name);
    for (size_t i = 0; i < groups->count && !group; i++) {
        fc_region_group *known = &groups->groups[i];
        if (known->kind == region->kind && strcmp(known->name, name) == 0)
            group = known;
    }
    if (!group) {
        group = append(groups);
        if (!group) {
            groups->out_of_memory = 1;
            return;
        }
        group->kind = region->kind;
        memcpy(group->name, name, sizeof name);
    }
    group->count++;
    group->bytes += region->bytes;
}

static int compare_bytes(const void *a, const void *b)
{
    const fc_region_group *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

void fc_region_groups_sort(fc_region_groups *groups)
{
    if (groups->count > 0)
        qsort(groups->groups, groups->count, sizeof *groups->groups, compare_bytes);
}

void fc_region_groups_free(fc_region_groups *groups)
{
    free(groups->groups);
    memset(groups, 0, sizeof *groups);
}

const char *fc_region_kind_word(flatclip_region_kind kind)
{
    switch (kind) {
    case FLATCLIP_REGION_WEIGHTS: return "weights";
    case FLATCLIP_REGION_ACTIVATIONS: return "activations";
    case FLATCLIP_REGION_WORKSPACE: return "workspace";
    }
    return "other";
}
