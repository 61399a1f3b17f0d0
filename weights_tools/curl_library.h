/* libcurl, loaded when it is needed: linked, it and what it brings along would cost every command
 * that fetches nothing 6 of its 9 milliseconds of start. */
#ifndef FC_CURL_LIBRARY_H
#define FC_CURL_LIBRARY_H

#define CURL_DISABLE_TYPECHECK /* its macros would call the functions by their own names */
#include <curl/curl.h>

#include "engine/base/error.h"

/* The functions of libcurl that are called, as it documents them. */
typedef struct {
    CURLcode (*global_init)(long flags);
    void (*global_cleanup)(void);
    CURL *(*init)(void);
    void (*reset)(CURL *curl);
    CURLcode (*set)(CURL *curl, CURLoption option, ...);
    CURLcode (*perform)(CURL *curl);
    CURLcode (*get)(CURL *curl, CURLINFO info, ...);
    void (*cleanup)(CURL *curl);
    const char *(*explain)(CURLcode code);
} fc_curl_library;

/* Loads it for as long as the program runs. Errors: UNAVAILABLE (says what to install). */
flatclip_status fc_curl_load(fc_curl_library *library, flatclip_error *err);

#endif
