/* Two writers over the same facts; see info_print.h. */
#include "cli/info_print.h"

#include <stdio.h>

#include "cli/engine_options.h"
#include "cli/json_text.h"

enum { DEFAULT_BATCH = 32, GROUPS_SHOWN = 12 };

static const char *place_word(flatclip_region_place place)
{
    switch (place) {
    case FLATCLIP_PLACE_HOST: return "host";
    case FLATCLIP_PLACE_PINNED: return "pinned";
    case FLATCLIP_PLACE_DEVICE: return "device";
    }
    return "unknown";
}

static const char *device_word(flatclip_device device)
{
    return device == FLATCLIP_DEVICE_CUDA ? "cuda" : "cpu";
}

static int batch_of(const fc_model_facts *facts)
{
    return facts->max_batch ? facts->max_batch : DEFAULT_BATCH;
}

static void print_bytes(const char *name, uint64_t bytes)
{
    printf("  %-12s %14llu bytes  %9.2f MiB\n", name, (unsigned long long)bytes,
           (double)bytes / (1024 * 1024));
}

static void print_text_head(const fc_model_facts *facts)
{
    const fc_clip_config *config = &facts->config;
    const flatclip_model_info *info = &facts->info;

    printf("model        %s\n", facts->path);
    printf("source       %s\n", config->source);
    if (config->source_sha256[0])
        printf("  sha256     %s\n", config->source_sha256);
    if (config->weights_sha256[0])
        printf("weights      sha256 %s\n", config->weights_sha256);
    printf("image tower  %d x %d pixels in patches of %d, %d tokens; ", info->image_size,
           info->image_size, info->patch_size, info->tokens);
    printf("width %d, layers %d, heads %d\n", info->width, info->layers, info->heads);
    if (config->text.layers > 0)
        printf("text tower   in the file, not loaded: width %d, layers %d, heads %d\n",
               config->text.width, config->text.layers, config->text.heads);
    if (config->text.layers > 0)
        printf("vocabulary   %d entries; its merges are %sin the file\n", config->vocab_size,
               facts->has_merges ? "" : "not ");
    printf("embedding    %d floats\n", info->embed_dim);
    printf("activation   %s%s%s\n", fc_activation_word(info->activation),
           config->activation_from[0] ? ": " : "", config->activation_from);
    printf("recipe       %s; mean %.7g %.7g %.7g, std %.7g %.7g %.7g\n",
           fc_recipe_word(info->recipe), (double)info->mean[0], (double)info->mean[1],
           (double)info->mean[2], (double)info->std[0], (double)info->std[1],
           (double)info->std[2]);
    printf("computed     on %s in %s\n", info->backend, fc_precision_word(info->precision));
    if (info->fallback[0])
        printf("             the CPU, because: %s\n", info->fallback);
    printf("\nMemory for batches of up to %d\n", batch_of(facts));
    print_bytes("weights", facts->memory.weights);
    print_bytes("activations", facts->memory.activations);
    print_bytes("workspace", facts->memory.workspace);
    print_bytes("total", facts->memory.total);
    if (facts->memory.device > 0)
        print_bytes("on the GPU", facts->memory.device);
}

static void print_json_text(const char *key, const char *value)
{
    printf("  \"%s\": ", key);
    if (value && *value)
        fc_json_text(stdout, value);
    else
        fputs("null", stdout);
    fputs(",\n", stdout);
}

static void print_json_triple(const char *key, const float value[3])
{
    printf("  \"%s\": [%.9g, %.9g, %.9g],\n", key, (double)value[0], (double)value[1],
           (double)value[2]);
}

static void print_json_model(const fc_model_facts *facts)
{
    const fc_clip_config *config = &facts->config;
    const flatclip_model_info *info = &facts->info;

    print_json_text("model", facts->path);
    print_json_text("source", config->source);
    print_json_text("source_sha256", config->source_sha256);
    print_json_text("weights_sha256", config->weights_sha256);
    printf("  \"image_size\": %d,\n  \"patch_size\": %d,\n  \"tokens\": %d,\n", info->image_size,
           info->patch_size, info->tokens);
    printf("  \"width\": %d,\n  \"layers\": %d,\n  \"heads\": %d,\n  \"embed_dim\": %d,\n",
           info->width, info->layers, info->heads, info->embed_dim);
    if (config->text.layers > 0)
        printf("  \"text\": {\"width\": %d, \"layers\": %d, \"heads\": %d, \"context_length\": %d, "
               "\"vocab_size\": %d},\n", config->text.width, config->text.layers,
               config->text.heads, config->context_length, config->vocab_size);
    else
        printf("  \"text\": null,\n");
    printf("  \"has_merges\": %s,\n", facts->has_merges ? "true" : "false");
    print_json_text("activation", fc_activation_word(info->activation));
    print_json_text("activation_from", config->activation_from);
    print_json_text("recipe", fc_recipe_word(info->recipe));
    print_json_triple("mean", info->mean);
    print_json_triple("std", info->std);
    print_json_text("device", device_word(info->device));
    print_json_text("backend", info->backend);
    print_json_text("fallback", info->fallback);
    print_json_text("precision", fc_precision_word(info->precision));
}

static void print_json_head(const fc_model_facts *facts)
{
    const flatclip_memory *memory = &facts->memory;

    fputs("{\n", stdout);
    print_json_model(facts);
    printf("  \"max_batch\": %d,\n", batch_of(facts));
    printf("  \"memory\": {\"weights\": %zu, \"activations\": %zu, \"workspace\": %zu, "
           "\"total\": %zu, \"device\": %zu},\n", memory->weights, memory->activations,
           memory->workspace, memory->total, memory->device);
    fputs("  \"regions\": [", stdout);
}

void fc_info_begin(fc_info_printer *printer, const fc_model_facts *facts, fc_info_style style)
{
    *printer = (fc_info_printer){ .facts = facts, .style = style };
    if (style == FC_INFO_JSON)
        print_json_head(facts);
    else
        print_text_head(facts);
    if (style == FC_INFO_MAP)
        printf("\n%-12s %-7s %14s %14s  %s\n", "Map", "where", "offset", "bytes", "name");
}

static void print_json_region(const fc_info_printer *printer, const flatclip_region *region)
{
    printf("%s\n    {\"kind\": \"%s\", \"name\": ", printer->regions ? "," : "",
           fc_region_kind_word(region->kind));
    fc_json_text(stdout, region->name);
    printf(", \"place\": \"%s\", \"offset\": %zu, \"bytes\": %zu}", place_word(region->place),
           region->offset, region->bytes);
}

void fc_info_region(void *user, const flatclip_region *region)
{
    fc_info_printer *printer = user;

    switch (printer->style) {
    case FC_INFO_JSON: print_json_region(printer, region); break;
    case FC_INFO_SUMMARY: fc_region_groups_add(&printer->groups, region); break;
    case FC_INFO_MAP:
        printf("%-12s %-7s %14zu %14zu  %s\n", fc_region_kind_word(region->kind),
               place_word(region->place), region->offset, region->bytes, region->name);
        break;
    }
    printer->regions++;
}

static void print_groups(const fc_info_printer *printer)
{
    const fc_region_groups *groups = &printer->groups;
    uint64_t rest = 0;

    printf("\nLargest of %zu regions (--map shows all)\n", printer->regions);
    for (size_t i = 0; i < groups->count; i++) {
        const fc_region_group *group = &groups->groups[i];
        if (i < GROUPS_SHOWN)
            printf("  %-12s %14llu bytes  %4zu x  %s\n", fc_region_kind_word(group->kind),
                   (unsigned long long)group->bytes, group->count, group->name);
        else
            rest += group->bytes;
    }
    if (rest > 0)
        printf("  %-12s %14llu bytes\n", "others", (unsigned long long)rest);
    if (groups->out_of_memory)
        fputs("  (not complete: no memory to sum up)\n", stdout);
}

void fc_info_end(fc_info_printer *printer)
{
    if (printer->style == FC_INFO_JSON)
        fputs("\n  ]\n}\n", stdout);
    if (printer->style == FC_INFO_SUMMARY) {
        fc_region_groups_sort(&printer->groups);
        print_groups(printer);
    }
    fc_region_groups_free(&printer->groups);
}
