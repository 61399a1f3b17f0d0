/* `flatclip fetch`: public weights from the web to a model file. */
#define _GNU_SOURCE
#include "cli/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_line.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "cli/convert_options.h"
#include "cli/suggest.h"
#include "engine/base/error.h"
#include "weights_tools/fetch.h"
#include "weights_tools/registry.h"

static const char help_text[] =
    "Usage: flatclip fetch [NAME] [options]\n"
    "\n"
    "Fetches public weights over https, checks their sha256, and makes a model file of them: in\n"
    "the cache folder ($FLATCLIP_CACHE, else $XDG_CACHE_HOME/flatclip, else ~/.cache/flatclip),\n"
    "where every command finds the default model. A broken download goes on where it stopped.\n"
    "\n"
    "  -o, --output MODEL     the file to write, instead of the one in the cache\n"
    "      --url ADDRESS      fetch from a mirror (http:// will do here); with a NAME, its\n"
    "                         checksum is demanded of it\n"
    "      --sha256 HEX       the checksum of the file at --url, where NAME tells none\n"
    "      --max-bytes N      refuse longer files; default: 8 GiB\n"
    "      --dtype WORD       f32, f16 or bf16: how the model stores weights; default: as fetched\n"
    "      --activation WORD  quickgelu or gelu, where nothing else tells\n"
    "      --keep             keep the download in the cache\n"
    "      --force            replace whatever MODEL is\n"
    "      --quiet            no progress\n"
    "\n"
    "Proxies: https_proxy, http_proxy, no_proxy. SSL_CERT_FILE names a private authority.\n"
    "\n"
    "Exit codes\n"
    "  0  the model is there    2  the command line is wrong    3  it could not be had\n"
    "\n"
    "Example\n"
    "  flatclip fetch && flatclip embed -o photos.npy ~/Pictures\n"
    "\n"
    "Names\n";

enum { OUTPUT, URL, SHA256, MAX_BYTES, DTYPE, ACTIVATION, KEEP, FORCE, QUIET, HELP, OPTIONS };

static const fc_option options_known[OPTIONS] = {
    [OUTPUT] = { "output", 'o', FC_OPTION_VALUE, "the model file to write" },
    [URL] = { "url", 0, FC_OPTION_VALUE, "an http:// or https:// address" },
    [SHA256] = { "sha256", 0, FC_OPTION_VALUE, "64 hexadecimal digits" },
    [MAX_BYTES] = { "max-bytes", 0, FC_OPTION_VALUE, "a number of bytes" },
    [DTYPE] = { "dtype", 0, FC_OPTION_VALUE, FC_EXPECTS_STORAGE },
    [ACTIVATION] = { "activation", 0, FC_OPTION_VALUE, FC_EXPECTS_ACTIVATION },
    [KEEP] = { "keep", 0, FC_OPTION_FLAG, NULL },
    [FORCE] = { "force", 0, FC_OPTION_FLAG, NULL },
    [QUIET] = { "quiet", 0, FC_OPTION_FLAG, NULL },
    [HELP] = { "help", 'h', FC_OPTION_FLAG, NULL },
};

typedef struct {
    const char *name, *output, *url;
    char sha256[65];
    fc_fetch_request request;
    int quiet, help;
} command_line;

/* -- The command line ------------------------------------------------------------------------- */

static flatclip_status read_sha256(const char *value, char hex[65], flatclip_error *err)
{
    if (strlen(value) != 64 || strspn(value, "0123456789abcdefABCDEF") != 64)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "--sha256 is \"%.70s\", expected 64 hexadecimal digits", value);
    for (int i = 0; i <= 64; i++)
        hex[i] = value[i] >= 'A' && value[i] <= 'F' ? (char)(value[i] - 'A' + 'a') : value[i];
    return FLATCLIP_OK;
}

static flatclip_status read_max_bytes(const char *value, uint64_t *bytes, flatclip_error *err)
{
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || !number)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "--max-bytes is \"%.40s\", expected a number of bytes", value);
    *bytes = number;
    return FLATCLIP_OK;
}

static flatclip_status apply(command_line *line, int which, const char *value, flatclip_error *err)
{
    fc_convert_options *convert = &line->request.convert;
    const fc_option *option = &options_known[which];

    switch (which) {
    case OUTPUT: line->output = value; break;
    case URL: line->url = value; break;
    case SHA256: return read_sha256(value, line->sha256, err);
    case MAX_BYTES: return read_max_bytes(value, &line->request.max_bytes, err);
    case DTYPE:
        convert->keep_dtype = 0;
        return fc_storage_option(option, value, &convert->dtype, err);
    case ACTIVATION:
        return fc_activation_option(option, value, &convert->activation, err);
    case KEEP: line->request.keep = 1; break;
    case FORCE: line->request.force = 1; break;
    case QUIET: line->quiet = 1; break;
    case HELP: line->help = 1; break;
    }
    return FLATCLIP_OK;
}

static flatclip_status read_command_line(command_line *line, int argc, char **argv,
                                         flatclip_error *err)
{
    fc_option_reader reader = { options_known, OPTIONS, argc, argv, 1, 0, NULL };
    int which;

    while (!line->help && (which = fc_option_next(&reader, err)) != FC_OPTION_END) {
        if (which == FC_OPTION_ERROR)
            return FLATCLIP_ERR_ARGUMENT;
        if (which != FC_OPTION_ARGUMENT)
            FC_TRY(apply(line, which, reader.value, err));
        else if (!line->name)
            line->name = reader.value;
        else
            return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                           "one NAME at a time: \"%.60s\" is too many", reader.value);
    }
    return FLATCLIP_OK;
}

static flatclip_status unknown_name(const char *name, flatclip_error *err)
{
    const fc_registry_entry *entry;
    fc_suggestion near = { name, NULL, 0 };
    char known[300] = "";

    for (size_t i = 0; (entry = fc_registry_at(i)) != NULL; i++) {
        const size_t used = strlen(known);
        fc_suggest(&near, entry->name);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", entry->name);
    }
    return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "no model is known as \"%.50s\"%s%s%s. Known are: "
                   "%.280s", name, near.best ? "; did you mean " : "", near.best ? near.best : "",
                   near.best ? "?" : "", known);
}

/* What is to be fetched: a model of the table, or what --url and --sha256 say. entry stays NULL
 * where the table knows nothing of it. */
static flatclip_status choose(command_line *line, const fc_registry_entry **entry,
                              flatclip_error *err)
{
    fc_fetch_request *request = &line->request;
    *entry = NULL;
    if (line->name || !line->url) {
        *entry = line->name ? fc_registry_find(line->name) : fc_registry_at(0);
        if (!*entry)
            return unknown_name(line->name, err);
    } else if (line->sha256[0]) {
        *entry = fc_registry_by_sha256(line->sha256);
    }
    if (*entry && line->sha256[0] && strcmp(line->sha256, (*entry)->sha256) != 0)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "--sha256 is not that of %s, which is %s",
                       (*entry)->name, (*entry)->sha256);
    if (!*entry && !line->sha256[0])
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "--url needs --sha256: without it nobody can tell whether the right file "
                       "came. Its publisher states it, or sha256sum does for a copy you trust");
    request->url = line->url ? line->url : (*entry)->url;
    request->plain_http = line->url != NULL;
    request->sha256 = *entry ? (*entry)->sha256 : line->sha256;
    request->bytes = *entry ? (*entry)->bytes : 0;
    return FLATCLIP_OK;
}

/* -- Running ---------------------------------------------------------------------------------- */

typedef struct {
    fc_progress progress;
    const fc_fetch_request *request;
    int quiet;
} screen;

static void on_event(void *context, fc_fetch_event event, uint64_t bytes)
{
    screen *s = context;
    fc_progress_clear(&s->progress);
    if (event == FC_FETCH_DOWNLOADS)
        fc_progress_start_bytes(&s->progress, (size_t)bytes, (size_t)s->request->bytes, s->quiet);
    if (s->quiet)
        return;
    switch (event) {
    case FC_FETCH_WAITS:
        fprintf(stderr, "waiting for another process that fetches the same file\n");
        break;
    case FC_FETCH_DOWNLOADS:
        fprintf(stderr, "fetching %s", s->request->url);
        fprintf(stderr, bytes ? ", from byte %" PRIu64 " on\n" : "\n", bytes);
        break;
    case FC_FETCH_CHECKS: fprintf(stderr, "checking the sha256\n"); break;
    case FC_FETCH_CONVERTS: fprintf(stderr, "converting\n"); break;
    }
}

static void on_progress(void *context, uint64_t done, uint64_t total)
{
    screen *s = context;
    s->progress.total = (size_t)total;
    fc_progress_update(&s->progress, (size_t)done);
}

/* The terms of use, once a model: later runs find it in its place. */
static void print_terms(const fc_registry_entry *entry)
{
    fprintf(stderr, "%s: licence %s\n%s", entry->name, entry->licence, entry->limits);
}

static void print_report(const fc_fetch_request *request, const fc_fetch_report *report)
{
    if (report->already) {
        printf("%s is there already\n", request->model);
        return;
    }
    printf("layout      %s\n", report->convert.layout);
    printf("activation  %s\n", report->convert.activation);
    if (report->convert.vocabulary[0])
        printf("vocabulary  %s\n", report->convert.vocabulary);
    printf("weights     sha256 %s\n", report->convert.config.weights_sha256);
    if (report->download[0])
        printf("download    kept as %s\n", report->download);
    printf("wrote       %s\n", request->model);
}

static flatclip_status run(command_line *line, const fc_registry_entry *entry,
                           flatclip_error *err)
{
    fc_fetch_request *request = &line->request;
    fc_fetch_report report;
    screen s = { .request = request, .quiet = line->quiet };

    request->tell = on_event;
    request->progress = on_progress;
    request->context = &s;
    const char *authorities = getenv("SSL_CERT_FILE");
    request->authorities = authorities && *authorities ? authorities : NULL;
    const flatclip_status status = fc_fetch(request, &report, err);
    fc_progress_clear(&s.progress);
    if (status != FLATCLIP_OK)
        return status;
    if (entry && !report.already)
        print_terms(entry);
    print_report(request, &report);
    return FLATCLIP_OK;
}

/* The model's path: -o, or its place in the cache. */
static flatclip_status name_model(const command_line *line, const fc_registry_entry *entry,
                                  const char *cache, char **model, flatclip_error *err)
{
    int made;
    if (line->output)
        made = asprintf(model, "%s", line->output);
    else if (entry)
        made = asprintf(model, "%s/%s", cache, entry->model);
    else
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "-o MODEL is missing: a file of --url has no place of its own");
    if (made >= 0)
        return FLATCLIP_OK;
    *model = NULL;
    return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the name of the model");
}

static void print_names(void)
{
    const fc_registry_entry *entry;
    for (size_t i = 0; (entry = fc_registry_at(i)) != NULL; i++)
        printf("  %-44s %s%s\n", entry->name, entry->licence, i ? "" : " (the default)");
}

int fc_cmd_fetch(int argc, char **argv)
{
    command_line line = { .request = { .max_bytes = FC_FETCH_MAX_BYTES,
                                       .convert = { .keep_dtype = 1 } } };
    const fc_registry_entry *entry = NULL;
    char *cache = NULL, *model = NULL;
    flatclip_error err;

    if (read_command_line(&line, argc, argv, &err) != FLATCLIP_OK)
        return fc_complain_usage("fetch", err.message);
    if (line.help) {
        fc_print_help(help_text);
        print_names();
        return fc_finish_stdout("fetch", FC_EXIT_OK);
    }
    flatclip_status status = choose(&line, &entry, &err);
    if (status == FLATCLIP_OK)
        status = fc_cache_folder(&cache, &err);
    if (status == FLATCLIP_OK)
        status = name_model(&line, entry, cache, &model, &err);
    if (status == FLATCLIP_ERR_ARGUMENT) {
        free(cache);
        return fc_complain_usage("fetch", err.message);
    }
    line.request.cache = cache;
    line.request.model = model;
    if (status == FLATCLIP_OK)
        status = run(&line, entry, &err);
    free(cache);
    free(model);
    return status == FLATCLIP_OK ? fc_finish_stdout("fetch", FC_EXIT_OK)
                                 : fc_complain("fetch", FC_EXIT_UNUSABLE, err.message);
}
