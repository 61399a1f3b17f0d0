/* Why a download failed, in words that say what to do. */
#ifndef FC_DOWNLOAD_EXPLAIN_H
#define FC_DOWNLOAD_EXPLAIN_H

#include "weights_tools/curl_library.h"

/* For an answer of the server other than 200, 206 and redirects. Always fails, with IO. */
flatclip_status fc_explain_answer(const char *url, long code, flatclip_error *err);

/* For a failure of libcurl: result, and reason in its words. kept bytes of the file are on the
 * disk. Always fails, with IO. */
flatclip_status fc_explain_transfer(const fc_curl_library *library, CURL *curl, CURLcode result,
                                    const char *url, const char *reason, uint64_t kept,
                                    flatclip_error *err);

#endif
