/* Which configuration files of a checkpoint are read, and in which order. */
#define _GNU_SOURCE
#include "weights_tools/source_config.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "weights_tools/config_owner.h"
#include "weights_tools/config_readers.h"

static flatclip_status read_open_clip(const char *path, fc_source_config *config,
                                      flatclip_error *err)
{
    fc_document doc = fc_doc_open_beside(path, "open_clip_config.json", err);
    config->said.recipe = FLATCLIP_RECIPE_OPENAI;
    snprintf(config->recipe_reason, sizeof config->recipe_reason,
             "as OpenAI's and open_clip's own transform does");
    if (doc.root && doc.status == FLATCLIP_OK)
        fc_config_take_open_clip(&doc, config);
    return fc_doc_close(&doc);
}

/* How pictures become pixels: transformers 5 writes the second of these names. */
static flatclip_status read_hf_pixels(const char *path, fc_source_config *config,
                                      flatclip_error *err)
{
    static const char *const names[] = { "preprocessor_config.json", "processor_config.json" };
    config->said.recipe = FLATCLIP_RECIPE_OPENAI;
    snprintf(config->recipe_reason, sizeof config->recipe_reason,
             "no preprocessor_config.json asks for another");
    for (int i = 0; i < 2 && config->said.recipe == FLATCLIP_RECIPE_OPENAI; i++) {
        fc_document doc = fc_doc_open_beside(path, names[i], err);
        if (doc.root && doc.status == FLATCLIP_OK)
            fc_config_take_hf_pixels(&doc, config);
        FC_TRY(fc_doc_close(&doc));
    }
    return FLATCLIP_OK;
}

static flatclip_status read_hf(const char *path, fc_source_config *config, flatclip_error *err)
{
    fc_document doc = fc_doc_open_beside(path, "config.json", err);
    if (doc.root && doc.status == FLATCLIP_OK)
        fc_config_take_hf(&doc, config);
    FC_TRY(fc_doc_close(&doc));
    return read_hf_pixels(path, config, err);
}

/* A configuration that may be another checkpoint's is not read, but the user is told of it. */
static void pass_over(const char *path, fc_layout layout, fc_source_config *config)
{
    const char *name = layout == FC_LAYOUT_HF ? "config.json" : "open_clip_config.json";
    const char *slash = strrchr(path, '/');
    char beside[PATH_MAX];
    config->said.recipe = FLATCLIP_RECIPE_OPENAI;
    snprintf(config->recipe_reason, sizeof config->recipe_reason,
             "no configuration that belongs to it asks for another");
    snprintf(beside, sizeof beside, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
    if (!access(beside, F_OK))
        snprintf(config->activation_reason, sizeof config->activation_reason,
                 "%s may belong to another checkpoint of its folder", name);
}

flatclip_status fc_source_config_read(const char *path, fc_layout layout, fc_source_config *config,
                                      flatclip_error *err)
{
    int belongs;
    memset(config, 0, sizeof *config);
    fc_clip_default_normalisation(&config->said);
    FC_TRY(fc_config_belongs(path, layout, &belongs, err));
    if (belongs)
        return layout == FC_LAYOUT_HF ? read_hf(path, config, err)
                                      : read_open_clip(path, config, err);
    pass_over(path, layout, config);
    return FLATCLIP_OK;
}
