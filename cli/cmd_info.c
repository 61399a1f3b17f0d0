/* `flatclip info`: what a model file is and every byte that it will take, from its header alone. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/engine_options.h"
#include "cli/info_print.h"
#include "cli/model_path.h"
#include "engine/base/error.h"

static const char help_text[] =
    "Usage: flatclip info [MODEL] [options]\n"
    "\n"
    "Says what a model file is, and what loading it and working with it will allocate, without\n"
    "doing so. MODEL defaults to $FLATCLIP_MODEL, then to the one in the cache folder.\n"
    "\n"
    "      --map             every tensor and buffer with its offset, instead of a summary\n"
    "      --json            all of it as JSON, the map included\n"
    "      --batch N         for sessions of N pictures at one time, 1 to 1024; default: 32\n"
    "      --threads N       for sessions with N threads, 1 to 256; default: the usable CPUs\n"
    "      --device WORD     auto (default), cpu, cuda or cuda:N\n"
    "      --precision WORD  auto (default), f32, bf16, f16 or int8\n"
    "\n"
    "Exit codes\n"
    "  0  done    2  the command line is wrong    3  model, device or precision cannot be used\n"
    "\n"
    "Example\n"
    "  flatclip info ViT-B-32.safetensors --batch 1\n";

enum { MODEL, MAP, JSON, BATCH, THREADS, DEVICE, PRECISION, HELP, OPTIONS };

static const fc_option options_known[OPTIONS] = {
    [MODEL] = { "model", 'm', FC_OPTION_VALUE, "a model file" },
    [MAP] = { "map", 0, FC_OPTION_FLAG, NULL },
    [JSON] = { "json", 0, FC_OPTION_FLAG, NULL },
    [BATCH] = { "batch", 0, FC_OPTION_VALUE, FC_EXPECTS_BATCH },
    [THREADS] = { "threads", 0, FC_OPTION_VALUE, FC_EXPECTS_THREADS },
    [DEVICE] = { "device", 0, FC_OPTION_VALUE, FC_EXPECTS_DEVICE },
    [PRECISION] = { "precision", 0, FC_OPTION_VALUE, FC_EXPECTS_PRECISION },
    [HELP] = { "help", 'h', FC_OPTION_FLAG, NULL },
};

typedef struct {
    const char *model;
    int map, json, help;
    flatclip_model_options engine;
    flatclip_session_options session;
} info_options;

static flatclip_status apply(info_options *options, int which, const char *value,
                             flatclip_error *err)
{
    const fc_option *option = which >= 0 ? &options_known[which] : NULL;

    switch (which) {
    case FC_OPTION_ERROR: return FLATCLIP_ERR_ARGUMENT;
    case FC_OPTION_ARGUMENT:
    case MODEL:
        if (options->model)
            return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                           "one MODEL at a time: \"%.60s\" is too many", value);
        options->model = value;
        break;
    case MAP: options->map = 1; break;
    case JSON: options->json = 1; break;
    case HELP: options->help = 1; break;
    case BATCH: return fc_engine_option_batch(option, value, &options->session, err);
    case THREADS: return fc_engine_option_threads(option, value, &options->session, err);
    case DEVICE: return fc_engine_option_device(option, value, &options->engine, err);
    case PRECISION: return fc_engine_option_precision(option, value, &options->engine, err);
    }
    return FLATCLIP_OK;
}

static flatclip_status read_options(info_options *options, int argc, char **argv,
                                    flatclip_error *err)
{
    fc_option_reader reader = { options_known, OPTIONS, argc, argv, 1, 0, NULL };
    int which;

    while (!options->help && (which = fc_option_next(&reader, err)) != FC_OPTION_END)
        FC_TRY(apply(options, which, reader.value, err));
    return FLATCLIP_OK;
}

static flatclip_status read_config(fc_model_facts *facts, flatclip_error *err)
{
    fc_safetensors *file;

    FC_TRY(fc_safetensors_open(facts->path, &file, err));
    const flatclip_status status = fc_clip_config_read(file, &facts->config, err);
    facts->has_merges = fc_safetensors_find(file, FC_MERGES_TENSOR) != NULL;
    fc_safetensors_close(file);
    return status;
}

static flatclip_status print_info(const info_options *options, const char *path,
                                  flatclip_error *err)
{
    fc_model_facts facts = { .path = path,
                             .info = FLATCLIP_MODEL_INFO_INIT,
                             .memory = FLATCLIP_MEMORY_INIT,
                             .max_batch = options->session.max_batch };

    FC_TRY(read_config(&facts, err));
    FC_TRY(flatclip_plan(path, &options->engine, &options->session, &facts.info, &facts.memory,
                         NULL, NULL, err));

    /* The plan is a pure function: asking again gives the same map, region by region. */
    fc_info_printer printer;
    fc_info_begin(&printer, &facts, options->json  ? FC_INFO_JSON
                                    : options->map ? FC_INFO_MAP
                                                   : FC_INFO_SUMMARY);
    const flatclip_status status = flatclip_plan(path, &options->engine, &options->session, NULL,
                                                 NULL, fc_info_region, &printer, err);
    fc_info_end(&printer);
    return status;
}

int fc_cmd_info(int argc, char **argv)
{
    info_options options = { .engine = FLATCLIP_MODEL_OPTIONS_INIT,
                             .session = FLATCLIP_SESSION_OPTIONS_INIT };
    flatclip_error err;
    char *path = NULL;

    if (read_options(&options, argc, argv, &err) != FLATCLIP_OK)
        return fc_complain_usage("info", err.message);
    if (options.help)
        return fc_print_help(help_text);
    flatclip_status status = fc_model_path(options.model, &path, &err);
    if (status == FLATCLIP_OK)
        status = print_info(&options, path, &err);
    free(path);
    if (status != FLATCLIP_OK)
        return fc_complain_error("info", &err);
    return fc_finish_stdout("info", FC_EXIT_OK);
}
