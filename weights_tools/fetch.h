/* A public model from the web to a model file: download, checksum, conversion. */
#ifndef FC_FETCH_H
#define FC_FETCH_H

#include "weights_tools/convert.h"
#include "weights_tools/download.h"

#define FC_FETCH_MAX_BYTES (UINT64_C(8) << 30) /* of a download whose length is not known */

/* What happens next, and how many bytes of the download are there. */
typedef enum {
    FC_FETCH_WAITS,     /* another process fetches the same file; this one waits for it */
    FC_FETCH_DOWNLOADS, /* from its beginning if bytes is 0, else from there on */
    FC_FETCH_CHECKS,
    FC_FETCH_CONVERTS
} fc_fetch_event;

typedef struct {
    const char *url;
    const char *sha256;      /* of the file at url: 64 lower-case hexadecimal digits */
    uint64_t bytes;          /* of that file; 0: not known */
    uint64_t max_bytes;
    int plain_http;          /* as in fc_download */
    const char *authorities; /* as in fc_download */
    const char *cache;       /* the folder for the download; made where it is missing */
    const char *model;       /* the file to make */
    fc_convert_options convert;
    int keep;                /* nonzero: the download stays in the cache */
    int force;               /* nonzero: whatever model is is replaced */
    void (*tell)(void *context, fc_fetch_event event, uint64_t bytes); /* may be NULL */
    fc_download_progress_fn *progress;                                 /* may be NULL */
    void *context;                                                     /* of both */
} fc_fetch_request;

typedef struct {
    int already;             /* nonzero: model was there, whole; nothing else is filled */
    char download[512];      /* where the download stays; "" if it was removed */
    fc_convert_report convert;
} fc_fetch_report;

/* Fetches, checks and converts. If model is there, whole and made of this file, nothing is done.
 * The download lies in a folder of its own, CACHE/download-XXXXXXXXXXXXXXXX (the sha256's first
 * digits), and stays there when it breaks off, or cannot be converted, so that the next call goes
 * on. A lock beside that folder sees to it that no two processes fetch one file.
 * Errors: IO, FORMAT, ARGUMENT, MEMORY; each says what to do. */
flatclip_status fc_fetch(const fc_fetch_request *request, fc_fetch_report *report,
                         flatclip_error *err);

#endif
