/* Which model to use when the command line names none, and where fetched models lie. */
#ifndef FC_MODEL_PATH_H
#define FC_MODEL_PATH_H

#include "flatclip.h"

/* Finds the model: given (of -m, or NULL), else $FLATCLIP_MODEL, else ViT-B-32.safetensors in the
 * cache folder: $FLATCLIP_CACHE, else $XDG_CACHE_HOME/flatclip, else ~/.cache/flatclip. Empty
 * variables count as unset. A file that is named is not looked at; one in the cache must exist.
 * On success *path is the caller's to free. Errors: IO (says how to get a model), MEMORY. */
flatclip_status fc_model_path(const char *given, char **path, flatclip_error *err);

/* The cache folder, as above; "." where not even $HOME is set. Whether it exists is not looked at.
 * *folder is the caller's to free. Errors: MEMORY. */
flatclip_status fc_cache_folder(char **folder, flatclip_error *err);

#endif
