/* Why a download failed; see download_explain.h. */
#include "weights_tools/download_explain.h"

#include <inttypes.h>
#include <stdio.h>

static const char *advice_for(long code)
{
    switch (code) {
    case 401:
    case 403: return "it does not give this file to everybody; give the address of a mirror with "
                     "--url";
    case 404:
    case 410: return "there is no such file; check the address, or give that of a mirror with "
                     "--url";
    case 407: return "the proxy wants a password: https_proxy=http://USER:PASSWORD@HOST:PORT";
    case 408:
    case 429: return "it is busy; try again later";
    default:
        return code >= 500 ? "it is in trouble; try again later"
                           : "give the address of a mirror with --url";
    }
}

flatclip_status fc_explain_answer(const char *url, long code, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_IO, "%.150s: the server answers %ld: %s", url, code,
                   advice_for(code));
}

/* Whether a connection to the server (or a proxy) was ever made. */
static int was_connected(const fc_curl_library *library, CURL *curl)
{
    curl_off_t microseconds = 0;
    library->get(curl, CURLINFO_CONNECT_TIME_T, &microseconds);
    return microseconds > 0;
}

flatclip_status fc_explain_transfer(const fc_curl_library *library, CURL *curl, CURLcode result,
                                    const char *url, const char *reason, uint64_t kept,
                                    flatclip_error *err)
{
    char go_on[80] = "run it again";
    long proxy = 0;
    if (!reason[0])
        reason = library->explain(result);
    if (kept)
        snprintf(go_on, sizeof go_on, "%" PRIu64 " bytes are kept; run it again to go on", kept);
    library->get(curl, CURLINFO_HTTP_CONNECTCODE, &proxy);
    if (proxy >= 300)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot reach %.110s: the proxy answers %ld. Check "
                       "https_proxy, or whether the proxy lets this server through", url, proxy);
    switch (result) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return fc_fail(err, FLATCLIP_ERR_IO, "%.120s is no address that can be fetched: %.80s",
                       url, reason);
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION:
        return fc_fail(err, FLATCLIP_ERR_IO, "no trusted connection to %.90s: %.90s. Where a "
                       "private authority signs, name its file in SSL_CERT_FILE", url, reason);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT: break;
    default:
        if (was_connected(library, curl))
            return fc_fail(err, FLATCLIP_ERR_IO, "%.90s: the connection broke: %.90s; %s", url,
                           reason, go_on);
    }
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot reach %.90s: %.90s. Check the network; behind a "
                   "proxy, set https_proxy", url, reason);
}
