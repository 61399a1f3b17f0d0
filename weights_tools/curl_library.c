/* Loading libcurl. Its ABI has had this number since 2006. */
#define _GNU_SOURCE
#include "weights_tools/curl_library.h"

#include <dlfcn.h>

#ifdef __APPLE__
#define FILE_NAME "libcurl.4.dylib"
#else
#define FILE_NAME "libcurl.so.4"
#endif

flatclip_status fc_curl_load(fc_curl_library *library, flatclip_error *err)
{
    const struct {
        const char *name;
        void *place; /* of a pointer to a function */
    } functions[] = {
        { "curl_global_init", &library->global_init },
        { "curl_global_cleanup", &library->global_cleanup },
        { "curl_easy_init", &library->init },
        { "curl_easy_reset", &library->reset },
        { "curl_easy_setopt", &library->set },
        { "curl_easy_perform", &library->perform },
        { "curl_easy_getinfo", &library->get },
        { "curl_easy_cleanup", &library->cleanup },
        { "curl_easy_strerror", &library->explain },
    };
    void *handle = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE,
                       "fetching needs libcurl: %.150s. Install it (Debian: libcurl4)", dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (!function)
            return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "%s has no %s: it is too old", FILE_NAME,
                           functions[i].name);
        *(void **)functions[i].place = function; /* as POSIX has it */
    }
    return FLATCLIP_OK;
}
