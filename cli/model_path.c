/* The search order for the model; see model_path.h. */
#include "cli/model_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/error.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* The parts joined, the caller's to free; NULL without memory. */
static char *join(const char *folder, const char *rest)
{
    const size_t bytes = strlen(folder) + strlen(rest) + 1;
    char *joined = malloc(bytes);

    if (joined)
        snprintf(joined, bytes, "%s%s", folder, rest);
    return joined;
}

static char *cache_folder(void)
{
    const char *folder;

    if ((folder = variable("FLATCLIP_CACHE")) != NULL)
        return join(folder, "");
    if ((folder = variable("XDG_CACHE_HOME")) != NULL)
        return join(folder, "/flatclip");
    if ((folder = variable("HOME")) != NULL)
        return join(folder, "/.cache/flatclip");
    return join(".", "");
}

flatclip_status fc_cache_folder(char **folder, flatclip_error *err)
{
    *folder = cache_folder();
    if (!*folder)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the name of the cache folder");
    return FLATCLIP_OK;
}

static char *cached_model(void)
{
    char *folder = cache_folder();
    char *model = folder ? join(folder, "/ViT-B-32.safetensors") : NULL;

    free(folder);
    return model;
}

flatclip_status fc_model_path(const char *given, char **path, flatclip_error *err)
{
    if (!given)
        given = variable("FLATCLIP_MODEL");
    *path = given ? join(given, "") : cached_model();
    if (!*path)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the model's name");
    if (given || access(*path, F_OK) == 0)
        return FLATCLIP_OK;
    const flatclip_status status =
        fc_fail(err, FLATCLIP_ERR_IO,
                "no model: there is no %.110s. `flatclip fetch` gets one, `flatclip convert` makes "
                "one from weights that you have; or give -m MODEL, or set FLATCLIP_MODEL", *path);
    free(*path);
    *path = NULL;
    return status;
}
