/* One file from the web to the disk: https, resumed where a break left it. */
#ifndef FC_DOWNLOAD_H
#define FC_DOWNLOAD_H

#include "engine/base/error.h"

enum { FC_MOST_REDIRECTS = 5, FC_CONNECT_SECONDS = 10, FC_STALL_SECONDS = 30 };

/* Says that done bytes of total are on the disk; total is 0 where it is not known. */
typedef void fc_download_progress_fn(void *context, uint64_t done, uint64_t total);

typedef struct {
    const char *url;
    int plain_http;          /* nonzero: http:// will do, as long as no https:// led to it */
    uint64_t bytes;          /* the length that the file must have; 0: not known */
    uint64_t max_bytes;      /* more is refused */
    int stall_seconds;       /* under 1 KB/s for so long is a break; 0: FC_STALL_SECONDS */
    const char *authorities; /* a file of trusted certificates (PEM); NULL: the system's */
    fc_download_progress_fn *progress; /* may be NULL */
    void *context;                     /* of progress */
} fc_download;

/* Fetches to path. What path holds already is taken for the beginning of the file, and the rest is
 * asked for; where the server cannot do that, all of it. Proxies come from the environment, as
 * libcurl reads it. After a failure path keeps what has come: the next call goes on from there.
 * Whether it is the right file, only its checksum tells: the caller must check it.
 * Errors: IO (network, server, disk: says what to do), ARGUMENT for an address that is not allowed,
 * MEMORY. */
flatclip_status fc_download_file(const fc_download *download, const char *path,
                                 flatclip_error *err);

#endif
