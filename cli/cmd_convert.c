/* `flatclip convert`: public weights in, a model file out. */
#include "cli/commands.h"

#include <stdio.h>

#include "cli/command_line.h"
#include "cli/convert_options.h"
#include "engine/base/error.h"
#include "weights_tools/convert.h"

static const char help_text[] =
    "Usage: flatclip convert SOURCE -o MODEL [options]\n"
    "\n"
    "Makes a model file from public CLIP weights: OpenAI's .pt, a Hugging Face folder or file,\n"
    "an open_clip file or training checkpoint; .safetensors, torch.save, TorchScript, or the\n"
    "index of several files. Kind and layout are told by content. Nothing in SOURCE is run.\n"
    "\n"
    "  -o, --output MODEL     the file to write (.safetensors)\n"
    "      --dtype WORD       f32, f16 or bf16: how the file stores weights; default: as SOURCE\n"
    "      --activation WORD  quickgelu (OpenAI's weights) or gelu (most open_clip weights);\n"
    "                         default: what the configuration that belongs to SOURCE says, or\n"
    "                         what is known of this file, or what its own code computes\n"
    "      --resize-pos       resample position embeddings (bicubic) to the image size that the\n"
    "                         configuration says, if the weights have another\n"
    "\n"
    "Exit codes\n"
    "  0  done    2  the command line is wrong    3  SOURCE or MODEL cannot be used\n"
    "\n"
    "Examples\n"
    "  flatclip convert ViT-B-32.pt -o ViT-B-32.safetensors\n"
    "  flatclip convert clip-vit-base-patch32/ -o ViT-B-32.safetensors --dtype f16\n";

enum { OUTPUT, DTYPE, ACTIVATION, RESIZE_POS, HELP, OPTIONS };

static const fc_option options_known[OPTIONS] = {
    [OUTPUT] = { "output", 'o', FC_OPTION_VALUE, "the model file to write" },
    [DTYPE] = { "dtype", 0, FC_OPTION_VALUE, FC_EXPECTS_STORAGE },
    [ACTIVATION] = { "activation", 0, FC_OPTION_VALUE, FC_EXPECTS_ACTIVATION },
    [RESIZE_POS] = { "resize-pos", 0, FC_OPTION_FLAG, NULL },
    [HELP] = { "help", 'h', FC_OPTION_FLAG, NULL },
};

typedef struct {
    const char *source, *output;
    fc_convert_options convert;
    int help;
} command_line;

static flatclip_status apply(command_line *line, int which, const char *value, flatclip_error *err)
{
    const fc_option *option = &options_known[which];

    switch (which) {
    case OUTPUT: line->output = value; break;
    case HELP: line->help = 1; break;
    case RESIZE_POS: line->convert.resize_positions = 1; break;
    case DTYPE:
        line->convert.keep_dtype = 0;
        return fc_storage_option(option, value, &line->convert.dtype, err);
    case ACTIVATION:
        return fc_activation_option(option, value, &line->convert.activation, err);
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
        else if (!line->source)
            line->source = reader.value;
        else
            return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                           "one SOURCE at a time: \"%.60s\" is too many", reader.value);
    }
    if (!line->help && (!line->source || !line->output))
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "%s is missing",
                       line->source ? "-o MODEL" : "SOURCE");
    return FLATCLIP_OK;
}

static int print_report(const char *output, const fc_convert_report *report)
{
    printf("layout      %s\n", report->layout);
    printf("activation  %s\n", report->activation);
    printf("recipe      %s\n", report->recipe);
    if (report->positions[0])
        printf("positions   %s\n", report->positions);
    if (report->vocabulary[0])
        printf("vocabulary  %s\n", report->vocabulary);
    if (report->ignored[0])
        printf("left out    %s\n", report->ignored);
    printf("weights     sha256 %s\n", report->config.weights_sha256);
    printf("wrote       %s\n", output);
    return fc_finish_stdout("convert", FC_EXIT_OK);
}

int fc_cmd_convert(int argc, char **argv)
{
    command_line line = { NULL, NULL, { FC_F32, 1, 0, 0 }, 0 };
    fc_convert_report report;
    flatclip_error err;

    if (read_command_line(&line, argc, argv, &err) != FLATCLIP_OK)
        return fc_complain_usage("convert", err.message);
    if (line.help)
        return fc_print_help(help_text);
    if (fc_convert(line.source, &line.convert, line.output, &report, &err) != FLATCLIP_OK)
        return fc_complain_error("convert", &err);
    return print_report(line.output, &report);
}
