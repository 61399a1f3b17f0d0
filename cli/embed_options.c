/* Reads what `flatclip embed` is asked for; see embed_options.h. */
#include "cli/embed_options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/engine_options.h"
#include "cli/output.h"
#include "engine/base/error.h"

enum { SHARDS_MAX = 1000000 };

enum {
    MODEL, OUTPUT, DEVICE, PRECISION, BATCH, THREADS, RECIPE, EXIF_ROTATE, MAX_PIXELS, NO_NORMALIZE,
    FROM_FILE, ONLY_NUL, SHARD, QUIET, HELP, TEXT, TEXT_FILE, NO_TRUNCATE, FAST_DECODE, OPTIONS
};

static const fc_option options_known[OPTIONS] = {
    [MODEL] = { "model", 'm', FC_OPTION_VALUE, "a model file" },
    [OUTPUT] = { "output", 'o', FC_OPTION_VALUE, "a file name ending in .npy or .jsonl" },
    [DEVICE] = { "device", 0, FC_OPTION_VALUE, FC_EXPECTS_DEVICE },
    [PRECISION] = { "precision", 0, FC_OPTION_VALUE, FC_EXPECTS_PRECISION },
    [BATCH] = { "batch", 0, FC_OPTION_VALUE, FC_EXPECTS_BATCH },
    [THREADS] = { "threads", 0, FC_OPTION_VALUE, FC_EXPECTS_THREADS },
    [RECIPE] = { "recipe", 0, FC_OPTION_VALUE, "auto, openai or hf" },
    [EXIF_ROTATE] = { "exif-rotate", 0, FC_OPTION_FLAG, NULL },
    [MAX_PIXELS] = { "max-pixels", 0, FC_OPTION_VALUE, "a number of pixels, 1 or more" },
    [NO_NORMALIZE] = { "no-normalize", 0, FC_OPTION_FLAG, NULL },
    [FROM_FILE] = { "from-file", 0, FC_OPTION_VALUE, "a file with one path a line, or -" },
    [ONLY_NUL] = { "null", '0', FC_OPTION_FLAG, NULL },
    [SHARD] = { "shard", 0, FC_OPTION_VALUE, "I/N, part I of N, counted from 1: 1/4 to 4/4" },
    [QUIET] = { "quiet", 'q', FC_OPTION_FLAG, NULL },
    [HELP] = { "help", 'h', FC_OPTION_FLAG, NULL },
    [TEXT] = { "text", 0, FC_OPTION_LATER, NULL },
    [TEXT_FILE] = { "text-file", 0, FC_OPTION_LATER, NULL },
    [NO_TRUNCATE] = { "no-truncate", 0, FC_OPTION_LATER, NULL },
    [FAST_DECODE] = { "fast-decode", 0, FC_OPTION_LATER, NULL },
};

static flatclip_status read_shard(fc_embed_options *options, const char *value,
                                  flatclip_error *err)
{
    const fc_option *option = &options_known[SHARD];
    const char *slash = strchr(value, '/');
    char part[16] = "";

    if (slash && slash - value < (ptrdiff_t)sizeof part)
        memcpy(part, value, (size_t)(slash - value));
    if (!slash ||
        fc_option_number(option, slash + 1, 1, SHARDS_MAX, &options->shards, NULL) != FLATCLIP_OK ||
        fc_option_number(option, part, 1, options->shards, &options->shard, NULL) != FLATCLIP_OK)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "--shard is \"%.60s\", expected %s", value,
                       option->expects);
    return FLATCLIP_OK;
}

static flatclip_status read_recipe(fc_embed_options *options, const char *value,
                                   flatclip_error *err)
{
    static const fc_word words[] = { { "auto", FLATCLIP_RECIPE_AUTO },
                                     { "openai", FLATCLIP_RECIPE_OPENAI },
                                     { "hf", FLATCLIP_RECIPE_HF } };
    int recipe;

    FC_TRY(fc_option_word(&options_known[RECIPE], value, words, sizeof words / sizeof words[0],
                          &recipe, err));
    options->session.recipe = (flatclip_recipe)recipe;
    return FLATCLIP_OK;
}

static flatclip_status read_output(fc_embed_options *options, const char *value,
                                   flatclip_error *err)
{
    options->output = value;
    return fc_output_check_name(value, err);
}

/* Options without a value, and those that only keep it. */
static void keep(fc_embed_options *options, int which, const char *value)
{
    switch (which) {
    case MODEL: options->model = value; break;
    case FROM_FILE: options->list = value; break;
    case EXIF_ROTATE: options->session.exif_rotate = 1; break;
    case NO_NORMALIZE: options->session.no_normalize = 1; break;
    case ONLY_NUL: options->list_only_nul = 1; break;
    case QUIET: options->quiet = 1; break;
    case HELP: options->help = 1; break;
    }
}

static flatclip_status apply(fc_embed_options *options, int which, const char *value,
                             flatclip_error *err)
{
    const fc_option *option = &options_known[which];

    switch (which) {
    case OUTPUT: return read_output(options, value, err);
    case DEVICE: return fc_engine_option_device(option, value, &options->engine, err);
    case PRECISION: return fc_engine_option_precision(option, value, &options->engine, err);
    case BATCH: return fc_engine_option_batch(option, value, &options->session, err);
    case THREADS: return fc_engine_option_threads(option, value, &options->session, err);
    case RECIPE: return read_recipe(options, value, err);
    case SHARD: return read_shard(options, value, err);
    case MAX_PIXELS:
        return fc_option_number(option, value, 1, UINT64_MAX, &options->session.max_pixels, err);
    }
    keep(options, which, value);
    return FLATCLIP_OK;
}

/* Standard input can be read only once. */
static flatclip_status check_inputs(const fc_embed_options *options, flatclip_error *err)
{
    int uses = options->list && strcmp(options->list, "-") == 0;

    for (size_t i = 0; i < options->path_count; i++)
        uses += strcmp(options->paths[i], "-") == 0;
    if (uses > 1)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "- stands for standard input and can be given only once");
    if (options->path_count == 0 && !options->list)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                       "nothing to embed; give pictures, folders, - or --from-file LIST");
    if (options->list_only_nul && !options->list)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "--null goes with --from-file LIST");
    return FLATCLIP_OK;
}

flatclip_status fc_embed_options_read(fc_embed_options *options, int argc, char **argv,
                                      flatclip_error *err)
{
    fc_option_reader reader = { options_known, OPTIONS, argc, argv, 1, 0, NULL };
    int which;

    *options = (fc_embed_options){ .shard = 1,
                                   .shards = 1,
                                   .engine = FLATCLIP_MODEL_OPTIONS_INIT,
                                   .session = FLATCLIP_SESSION_OPTIONS_INIT };
    options->paths = malloc((size_t)argc * sizeof *options->paths);
    if (!options->paths)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for the command line");
    while (!options->help && (which = fc_option_next(&reader, err)) != FC_OPTION_END) {
        if (which == FC_OPTION_ERROR)
            return FLATCLIP_ERR_ARGUMENT;
        if (which == FC_OPTION_ARGUMENT)
            options->paths[options->path_count++] = reader.value;
        else
            FC_TRY(apply(options, which, reader.value, err));
    }
    return options->help ? FLATCLIP_OK : check_inputs(options, err);
}

void fc_embed_options_free(fc_embed_options *options)
{
    free(options->paths);
    options->paths = NULL;
    options->path_count = 0;
}

void fc_embed_shard(const fc_embed_options *options, size_t count, size_t *first, size_t *length)
{
    /* count * shard / shards without overflow: whole stretches, and the remainder spread. */
    const size_t whole = count / options->shards, rest = count % options->shards;
    const size_t before = options->shard - 1;

    *first = before * whole + before * rest / options->shards;
    *length = options->shard * whole + options->shard * rest / options->shards - *first;
}
