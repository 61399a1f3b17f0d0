/* `flatclip synth`: a model file with seeded random weights. */
#include "cli/commands.h"

#include <stdio.h>

#include "cli/command_line.h"
#include "cli/convert_options.h"
#include "engine/base/error.h"
#include "weights_tools/synth.h"

static const char help_text[] =
    "Usage: flatclip synth --config NAME -o MODEL [options]\n"
    "\n"
    "Writes a model file with seeded random weights: the same bits on every machine. Its\n"
    "embeddings mean nothing; it serves to try the program, to test and to measure.\n"
    "\n"
    "      --config NAME   vitb32, or a small one: tiny, tiny-b16, tiny-l14-336, micro\n"
    "  -o, --output MODEL  the file to write (.safetensors)\n"
    "      --seed N        default: 1\n"
    "      --dtype WORD    f32 (default), f16 or bf16: how the file stores weights\n"
    "\n"
    "Exit codes\n"
    "  0  done    2  the command line is wrong    3  the file cannot be written\n"
    "\n"
    "Example\n"
    "  flatclip synth --config vitb32 -o random.safetensors\n";

enum { CONFIG, SEED, DTYPE, OUTPUT, HELP, OPTIONS };

static const fc_option options_known[OPTIONS] = {
    [CONFIG] = { "config", 0, FC_OPTION_VALUE, "vitb32, tiny, tiny-b16, tiny-l14-336 or micro" },
    [SEED] = { "seed", 0, FC_OPTION_VALUE, "a whole number, 0 or more" },
    [DTYPE] = { "dtype", 0, FC_OPTION_VALUE, FC_EXPECTS_STORAGE },
    [OUTPUT] = { "output", 'o', FC_OPTION_VALUE, "the model file to write" },
    [HELP] = { "help", 'h', FC_OPTION_FLAG, NULL },
};

typedef struct {
    const char *config, *output;
    uint64_t seed;
    fc_dtype dtype;
    int help;
} synth_options;

static flatclip_status apply(synth_options *options, int which, const char *value,
                             flatclip_error *err)
{
    const fc_option *option = &options_known[which];

    switch (which) {
    case SEED: return fc_option_number(option, value, 0, UINT64_MAX, &options->seed, err);
    case DTYPE: return fc_storage_option(option, value, &options->dtype, err);
    case CONFIG: options->config = value; break;
    case OUTPUT: options->output = value; break;
    case HELP: options->help = 1; break;
    }
    return FLATCLIP_OK;
}

static flatclip_status read_options(synth_options *options, int argc, char **argv,
                                    flatclip_error *err)
{
    fc_option_reader reader = { options_known, OPTIONS, argc, argv, 1, 0, NULL };
    fc_clip_config config;
    int which;

    while (!options->help && (which = fc_option_next(&reader, err)) != FC_OPTION_END) {
        if (which == FC_OPTION_ERROR)
            return FLATCLIP_ERR_ARGUMENT;
        if (which == FC_OPTION_ARGUMENT)
            return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "unexpected argument \"%.60s\"",
                           reader.value);
        FC_TRY(apply(options, which, reader.value, err));
    }
    if (options->help)
        return FLATCLIP_OK;
    if (!options->config || !options->output)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "%s is missing",
                       options->config ? "-o MODEL" : "--config NAME");
    return fc_synth_config(options->config, &config, err);
}

int fc_cmd_synth(int argc, char **argv)
{
    synth_options options = { NULL, NULL, 1, FC_F32, 0 };
    flatclip_error err;

    if (read_options(&options, argc, argv, &err) != FLATCLIP_OK)
        return fc_complain_usage("synth", err.message);
    if (options.help)
        return fc_print_help(help_text);
    if (fc_synth_write(options.config, options.seed, options.dtype, options.output, &err) !=
        FLATCLIP_OK)
        return fc_complain_error("synth", &err);
    fprintf(stderr, "wrote %s: random weights (%s, seed %llu), so similarities mean nothing\n",
            options.output, options.config, (unsigned long long)options.seed);
    return FC_EXIT_OK;
}
