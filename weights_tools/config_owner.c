/* Telling whose configuration a file in a folder is. */
#define _GNU_SOURCE
#include "weights_tools/config_owner.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/safetensors.h"

static int has_usual_name(const char *name, fc_layout layout)
{
    static const char *const begins[][3] = {
        [FC_LAYOUT_OPENAI] = { "open_clip", NULL, NULL },
        [FC_LAYOUT_HF] = { "model.safetensors", "model-", "pytorch_model" },
    };
    for (int i = 0; i < 3; i++)
        if (begins[layout][i] && !strncmp(name, begins[layout][i], strlen(begins[layout][i])))
            return 1;
    return 0;
}

static int looks_like_checkpoint(const char *name)
{
    static const char *const ends[] = { ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".pkl" };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (!strcasecmp(dot, ends[i]))
            return 1;
    return 0;
}

/* Models that we wrote carry their own configuration. */
static flatclip_status is_model_of_ours(const char *folder, const char *name, int *ours,
                                        flatclip_error *err)
{
    fc_safetensors *file;
    char path[PATH_MAX];
    *ours = 0;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return FLATCLIP_OK;
    const flatclip_status status = fc_safetensors_open(path, &file, err);
    if (status != FLATCLIP_OK)
        return status == FLATCLIP_ERR_MEMORY ? status : FLATCLIP_OK;
    const char *format = fc_safetensors_metadata(file, "format");
    *ours = format && !strcmp(format, "flatclip");
    fc_safetensors_close(file);
    return FLATCLIP_OK;
}

/* Whether another checkpoint than name lies in the folder, or it cannot be seen. */
static flatclip_status look_for_company(const char *folder_path, const char *name, int *company,
                                        flatclip_error *err)
{
    DIR *folder = opendir(folder_path);
    flatclip_status status = FLATCLIP_OK;
    *company = 1;
    if (!folder)
        return errno == ENOMEM ? fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to list %.200s",
                                         folder_path) : FLATCLIP_OK;
    *company = 0;
    for (const struct dirent *entry; status == FLATCLIP_OK && !*company &&
                                     (entry = readdir(folder)) != NULL;) {
        int ours = 0;
        if (!strcmp(entry->d_name, name) || !looks_like_checkpoint(entry->d_name))
            continue;
        status = is_model_of_ours(folder_path, entry->d_name, &ours, err);
        *company = !ours;
    }
    closedir(folder);
    return status;
}

flatclip_status fc_config_belongs(const char *path, fc_layout layout, int *belongs,
                                  flatclip_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    int company;
    *belongs = 1;
    if (has_usual_name(name, layout))
        return FLATCLIP_OK;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - path) : 1,
             slash ? path : ".");
    FC_TRY(look_for_company(folder, name, &company, err));
    *belongs = !company;
    return FLATCLIP_OK;
}
