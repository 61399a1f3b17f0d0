/* One file from the web to the disk, with libcurl.
 *
 * Redirects are followed here and not by libcurl: its rules know which protocols may follow, but
 * not that plain http must never come after https. */
#define _GNU_SOURCE
#include "weights_tools/download.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights_tools/download_explain.h"

enum {
    BUFFER_BYTES = 256 << 10,
    STALL_BYTES_PER_SECOND = 1024,
    HEADER_BYTES = 128,
    REDIRECT_BYTES = 64 << 10   /* of a redirect's body, which nobody reads */
};

/* What one answer's Content-Range says: "bytes 5-9/10", or with a star for 5-9 where nothing is
 * left. */
typedef struct {
    int has_first, has_total;
    uint64_t first, total;
} content_range;

typedef struct {
    const fc_download *asked;
    const char *path;
    fc_curl_library curl_library;
    CURL *curl;
    int file;
    uint64_t have;              /* bytes in file, all from its beginning */
    uint64_t total;             /* of the whole file; 0: not known */
    content_range range;
    int begun;                  /* nonzero: this answer's body belongs into file */
    int restart;                /* nonzero: the server cannot go on from have */
    size_t ignored;             /* bytes of this answer's body that do not */
    flatclip_status failed;     /* of the callbacks, explained in *err */
    flatclip_error *err;
    char reason[CURL_ERROR_SIZE];
} transfer;

/* -- The file -------------------------------------------------------------------------------- */

static flatclip_status fail_file(const transfer *t, flatclip_error *err)
{
    const int reason = errno;
    const char *advice = reason == EFBIG ? "raise the file size limit (ulimit -f)"
                         : reason == ENOSPC || reason == EDQUOT
                             ? "make room, or set FLATCLIP_CACHE to a folder on another disk"
                             : "set FLATCLIP_CACHE to a folder that you may write to";
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %.130s: %s; %s", t->path, strerror(reason),
                   advice);
}

static flatclip_status open_file(transfer *t, flatclip_error *err)
{
    struct stat info;
    t->file = open(t->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (t->file < 0 || fstat(t->file, &info) != 0 || lseek(t->file, 0, SEEK_END) < 0)
        return fail_file(t, err);
    t->have = (uint64_t)info.st_size;
    return FLATCLIP_OK;
}

static flatclip_status empty_file(transfer *t, flatclip_error *err)
{
    if (ftruncate(t->file, 0) != 0 || lseek(t->file, 0, SEEK_SET) < 0)
        return fail_file(t, err);
    t->have = 0;
    return FLATCLIP_OK;
}

static flatclip_status append(transfer *t, const char *data, size_t bytes, flatclip_error *err)
{
    while (bytes) {
        const ssize_t wrote = write(t->file, data, bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return fail_file(t, err);
        t->have += (uint64_t)wrote;
        data += wrote;
        bytes -= (size_t)wrote;
    }
    return FLATCLIP_OK;
}

/* -- The answer ------------------------------------------------------------------------------ */

static long response_code(const transfer *t)
{
    long code = 0;
    t->curl_library.get(t->curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

static void read_range(content_range *range, const char *value)
{
    uint64_t last;
    const int found = sscanf(value, " bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &range->first,
                             &last, &range->total);
    range->has_first = found >= 2;
    range->has_total = found == 3 || sscanf(value, " bytes */%" SCNu64, &range->total) == 1;
}

static size_t on_header(char *data, size_t size, size_t count, void *user)
{
    static const char name[] = "content-range:";
    const size_t bytes = size * count, name_bytes = sizeof name - 1;
    transfer *t = user;
    char value[HEADER_BYTES];
    if (bytes > 5 && strncmp(data, "HTTP/", 5) == 0)
        memset(&t->range, 0, sizeof t->range);
    if (bytes > name_bytes && strncasecmp(data, name, name_bytes) == 0) {
        snprintf(value, sizeof value, "%.*s", (int)(bytes - name_bytes), data + name_bytes);
        read_range(&t->range, value);
    }
    return bytes;
}

static flatclip_status check_length(const transfer *t, uint64_t length, flatclip_error *err)
{
    const fc_download *asked = t->asked;
    if (asked->bytes && length != asked->bytes)
        return fc_fail(err, FLATCLIP_ERR_IO,
                       "%.120s has %" PRIu64 " bytes there, but %" PRIu64 " were expected: it is "
                       "another file. Look for a mirror and give it with --url", asked->url,
                       length, asked->bytes);
    if (length > asked->max_bytes)
        return fc_fail(err, FLATCLIP_ERR_IO,
                       "%.120s is too large: %" PRIu64 " bytes or more, and the limit is %" PRIu64
                       ". If that is right, raise --max-bytes", asked->url, length,
                       asked->max_bytes);
    return FLATCLIP_OK;
}

/* Looks at the head of a good answer: where its body belongs, and how long the file will be. */
static flatclip_status begin(transfer *t, flatclip_error *err)
{
    curl_off_t length = -1;
    t->begun = 1;
    if (response_code(t) == 206) {
        const int wrong = !t->range.has_first || t->range.first != t->have;
        t->restart = wrong && t->have;
        if (wrong)
            return t->restart ? FLATCLIP_OK : fc_explain_answer(t->asked->url, 206, err);
    } else {
        FC_TRY(empty_file(t, err));
    }
    t->curl_library.get(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    t->total = length >= 0 ? t->have + (uint64_t)length : 0;
    if (t->range.has_total)
        t->total = t->range.total;
    return length >= 0 || t->range.has_total ? check_length(t, t->total, err) : FLATCLIP_OK;
}

/* The body of an error ends the transfer. That of a redirect must not: libcurl says only at its end
 * where it leads. */
static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    const size_t bytes = size * count;
    transfer *t = user;
    const long code = response_code(t);
    if (code != 200 && code != 206) {
        t->ignored += bytes;
        return code >= 300 && code < 400 && t->ignored <= REDIRECT_BYTES ? bytes : 0;
    }
    if (!t->begun)
        t->failed = begin(t, t->err);
    if (t->failed == FLATCLIP_OK && !t->restart && t->have + bytes > t->asked->max_bytes)
        t->failed = check_length(t, t->have + bytes, t->err);
    if (t->failed == FLATCLIP_OK && !t->restart)
        t->failed = append(t, data, bytes, t->err);
    if (t->failed != FLATCLIP_OK || t->restart)
        return 0;
    if (t->asked->progress)
        t->asked->progress(t->asked->context, t->have, t->total);
    return bytes;
}

/* -- One request ----------------------------------------------------------------------------- */

static int is_https(const char *url)
{
    return strncasecmp(url, "https://", 8) == 0;
}

static int allow_protocols(const fc_curl_library *library, CURL *curl, int https_only)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    return library->set(curl, CURLOPT_PROTOCOLS_STR, https_only ? "https" : "http,https") ==
           CURLE_OK;
#else
    const long http = https_only ? 0 : CURLPROTO_HTTP;
    return library->set(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTPS | http) == CURLE_OK;
#endif
}

static int set_options(transfer *t, const char *url)
{
    const fc_curl_library *library = &t->curl_library;
    CURL *curl = t->curl;
    char rest[32];
    const int stall = t->asked->stall_seconds ? t->asked->stall_seconds : FC_STALL_SECONDS;
    library->reset(curl);
    snprintf(rest, sizeof rest, "%" PRIu64 "-", t->have);
    int good = allow_protocols(library, curl, is_https(url));
    good &= library->set(curl, CURLOPT_URL, url) == CURLE_OK;
    good &= library->set(curl, CURLOPT_USERAGENT, "flatclip") == CURLE_OK;
    good &= library->set(curl, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    good &= library->set(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    if (t->asked->authorities)
        good &= library->set(curl, CURLOPT_CAINFO, t->asked->authorities) == CURLE_OK;
    /* Not RESUME_FROM: with that, a server that sends everything is an error. */
    if (t->have)
        good &= library->set(curl, CURLOPT_RANGE, rest) == CURLE_OK;
    library->set(curl, CURLOPT_NOSIGNAL, 1L);
    library->set(curl, CURLOPT_CONNECTTIMEOUT, (long)FC_CONNECT_SECONDS);
    library->set(curl, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES_PER_SECOND);
    library->set(curl, CURLOPT_LOW_SPEED_TIME, (long)stall);
    library->set(curl, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    library->set(curl, CURLOPT_ERRORBUFFER, t->reason);
    library->set(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    library->set(curl, CURLOPT_HEADERFUNCTION, on_header);
    library->set(curl, CURLOPT_HEADERDATA, t);
    library->set(curl, CURLOPT_WRITEFUNCTION, on_body);
    library->set(curl, CURLOPT_WRITEDATA, t);
    return good;
}

/* The server has nothing behind what we have: either that is all, or it is not of this file. */
static flatclip_status judge_unsatisfiable(transfer *t, flatclip_error *err)
{
    if (t->range.has_total && t->range.total == t->have)
        return check_length(t, t->have, err);
    t->restart = t->have > 0;
    return t->restart ? FLATCLIP_OK : fc_explain_answer(t->asked->url, 416, err);
}

/* Asks url for what is missing. *next is where it leads instead (libcurl's memory), or NULL. */
static flatclip_status request(transfer *t, const char *url, char **next, flatclip_error *err)
{
    *next = NULL;
    t->begun = t->restart = 0;
    t->ignored = 0;
    t->reason[0] = '\0';
    memset(&t->range, 0, sizeof t->range);
    if (!set_options(t, url))
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to fetch %.200s", url);
    const CURLcode result = t->curl_library.perform(t->curl);
    const long code = response_code(t);
    FC_TRY(t->failed);
    if (code >= 300 && code < 400)
        t->curl_library.get(t->curl, CURLINFO_REDIRECT_URL, next);
    if (*next || t->restart)
        return FLATCLIP_OK;
    if (code == 416)
        return judge_unsatisfiable(t, err);
    if (code && code != 200 && code != 206)
        return fc_explain_answer(url, code, err);
    if (result != CURLE_OK)
        return fc_explain_transfer(&t->curl_library, t->curl, result, url, t->reason, t->have, err);
    if (!t->begun)
        FC_TRY(begin(t, err)); /* an empty body */
    if (!t->restart && t->asked->bytes && t->have != t->asked->bytes)
        return fc_explain_transfer(&t->curl_library, t->curl, CURLE_PARTIAL_FILE, url,
                                   "too early an end", t->have, err);
    return FLATCLIP_OK;
}

/* -- From address to address ----------------------------------------------------------------- */

/* from is the address that led to url; NULL for the first. */
static flatclip_status check_address(const transfer *t, const char *url, const char *from,
                                     flatclip_error *err)
{
    const int plain = strncasecmp(url, "http://", 7) == 0;
    if (is_https(url) || (plain && t->asked->plain_http && !(from && is_https(from))))
        return FLATCLIP_OK;
    if (from)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "%.100s leads to %.100s, which is not https: refused. Give an address with "
                       "--url that stays with https", from, url);
    return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "%.150s: only https:// addresses are fetched%s",
                   url, plain ? "; plain http:// with --url alone" : "");
}

/* Requests *url, then where it leads, until the file is whole. *url becomes the last of them. */
static flatclip_status follow(transfer *t, char **url, flatclip_error *err)
{
    char *next;
    for (int redirects = 0;;) {
        FC_TRY(request(t, *url, &next, err));
        if (t->restart)
            FC_TRY(empty_file(t, err));
        else if (!next)
            return FLATCLIP_OK;
        if (!next)
            continue; /* without a range now: the server cannot refuse it again */
        if (redirects++ == FC_MOST_REDIRECTS)
            return fc_fail(err, FLATCLIP_ERR_IO,
                           "%.150s: more than %d redirects; give the address of the file itself "
                           "with --url", t->asked->url, FC_MOST_REDIRECTS);
        FC_TRY(check_address(t, next, *url, err));
        char *copy = strdup(next);
        if (!copy)
            return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to fetch %.200s", next);
        free(*url);
        *url = copy;
    }
}

static flatclip_status download(transfer *t, flatclip_error *err)
{
    const uint64_t bytes = t->asked->bytes;
    FC_TRY(check_address(t, t->asked->url, NULL, err));
    FC_TRY(open_file(t, err));
    if (bytes && t->have == bytes)
        return FLATCLIP_OK;
    if (t->have > (bytes ? bytes : t->asked->max_bytes))
        FC_TRY(empty_file(t, err));
    char *url = strdup(t->asked->url);
    t->curl = url ? t->curl_library.init() : NULL;
    const flatclip_status status =
        t->curl ? follow(t, &url, err)
                : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to fetch %.200s", t->asked->url);
    t->curl_library.cleanup(t->curl);
    free(url);
    return status;
}

flatclip_status fc_download_file(const fc_download *asked, const char *path, flatclip_error *err)
{
    transfer t = { .asked = asked, .path = path, .file = -1, .err = err };
    FC_TRY(fc_curl_load(&t.curl_library, err));
    if (t.curl_library.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return fc_fail(err, FLATCLIP_ERR_UNAVAILABLE, "libcurl cannot be started");
    const flatclip_status status = download(&t, err);
    if (t.file >= 0)
        close(t.file);
    t.curl_library.global_cleanup();
    return status;
}
