/* Download, checksum, conversion; see fetch.h. */
#define _GNU_SOURCE
#include "weights_tools/fetch.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights_tools/fetch_place.h"
#include "weights_tools/sha256.h"

static void tell(const fc_fetch_request *request, fc_fetch_event event, uint64_t bytes)
{
    if (request->tell)
        request->tell(request->context, event, bytes);
}

static void tell_waits(const void *request)
{
    tell(request, FC_FETCH_WAITS, 0);
}

static uint64_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* -- The model that may be there already ----------------------------------------------------- */

static flatclip_status judge(const fc_fetch_request *request, const fc_safetensors *file,
                             flatclip_error *err)
{
    const fc_convert_options *wanted = &request->convert;
    fc_clip_config config;
    FC_TRY(fc_clip_config_read(file, &config, err));
    FC_TRY(fc_clip_check_tensors(file, &config, err));
    if (strcmp(config.source_sha256, request->sha256) != 0)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "it was made from %.60s",
                       config.source[0] ? config.source : "something else");
    if (wanted->activation && wanted->activation != config.activation)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "its activation is %s",
                       fc_activation_word(config.activation));
    const fc_dtype stored = fc_safetensors_at(file, 0)->dtype;
    if (!wanted->keep_dtype && wanted->dtype != stored)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "it is stored as %s", fc_dtype_name(stored));
    return FLATCLIP_OK;
}

/* *there becomes nonzero if the model is there, whole and as it is wanted. What is there and is
 * something else is refused: it may be dear to somebody. */
static flatclip_status look_for_model(const fc_fetch_request *request, int *there,
                                      flatclip_error *err)
{
    fc_safetensors *file = NULL;
    flatclip_error why;
    *there = 0;
    if (request->force || access(request->model, F_OK) != 0)
        return FLATCLIP_OK;
    flatclip_status status = fc_safetensors_open(request->model, &file, &why);
    if (status == FLATCLIP_OK)
        status = judge(request, file, &why);
    fc_safetensors_close(file);
    *there = status == FLATCLIP_OK;
    if (*there)
        return FLATCLIP_OK;
    return fc_fail(err, status, "%.90s is there, but is not what is asked for (%.110s). Choose "
                   "another -o, or replace it with --force", request->model, why.message);
}

/* A place that cannot be written to is better found before a long download than after. */
static flatclip_status check_model_folder(const char *model, flatclip_error *err)
{
    char *copy = strdup(model);
    if (!copy)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to write %.200s", model);
    const int good = access(dirname(copy), W_OK) == 0;
    const int reason = errno;
    free(copy);
    if (good)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %.150s: %s; make the folder first, or "
                   "choose another with -o", model, strerror(reason));
}

/* -- The download ---------------------------------------------------------------------------- */

/* Errors: IO for another checksum than the request's; the file is removed then. */
static flatclip_status check_sum(const fc_fetch_request *request, const char *path,
                                 flatclip_error *err)
{
    char hex[65];
    tell(request, FC_FETCH_CHECKS, size_of(path));
    FC_TRY(fc_sha256_file(path, hex, err));
    if (strcmp(hex, request->sha256) == 0)
        return FLATCLIP_OK;
    unlink(path);
    return fc_fail(err, FLATCLIP_ERR_IO,
                   "wrong checksum: sha256 %s, expected %s. The download was removed; run it "
                   "again, and if that does not help, take another address", hex,
                   request->sha256);
}

static flatclip_status get(const fc_fetch_request *request, const fc_fetch_place *place,
                           flatclip_error *err)
{
    const fc_download download = {
        .url = request->url, .plain_http = request->plain_http, .bytes = request->bytes,
        .max_bytes = request->max_bytes, .authorities = request->authorities,
        .progress = request->progress, .context = request->context,
    };
    if (size_of(place->whole)) {
        /* Of a run that kept it, or could not convert it. */
        if (check_sum(request, place->whole, err) == FLATCLIP_OK)
            return FLATCLIP_OK;
        unlink(place->whole);
    }
    tell(request, FC_FETCH_DOWNLOADS, size_of(place->part));
    FC_TRY(fc_download_file(&download, place->part, err));
    FC_TRY(check_sum(request, place->part, err));
    if (rename(place->part, place->whole) == 0)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot rename %.200s: %s", place->part,
                   strerror(errno));
}

static flatclip_status make_model(const fc_fetch_request *request, const fc_fetch_place *place,
                                  fc_fetch_report *report, flatclip_error *err)
{
    FC_TRY(look_for_model(request, &report->already, err)); /* another process may have made it */
    if (report->already)
        return FLATCLIP_OK;
    FC_TRY(check_model_folder(request->model, err));
    FC_TRY(get(request, place, err));
    tell(request, FC_FETCH_CONVERTS, size_of(place->whole));
    FC_TRY(fc_convert(place->whole, &request->convert, request->model, &report->convert, err));
    if (request->keep)
        snprintf(report->download, sizeof report->download, "%s", place->whole);
    else
        unlink(place->whole);
    return FLATCLIP_OK;
}

flatclip_status fc_fetch(const fc_fetch_request *request, fc_fetch_report *report,
                         flatclip_error *err)
{
    fc_fetch_place place;
    memset(report, 0, sizeof *report);
    FC_TRY(look_for_model(request, &report->already, err));
    if (report->already)
        return FLATCLIP_OK;
    flatclip_status status = fc_fetch_place_open(&place, request->cache, request->url,
                                                 request->sha256, tell_waits, request, err);
    if (status == FLATCLIP_OK)
        status = make_model(request, &place, report, err);
    fc_fetch_place_close(&place);
    return status;
}
