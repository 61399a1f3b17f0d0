/* `flatclip verify`: is a model file whole, and does it compute as it should here? */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/command_line.h"
#include "cli/json_text.h"
#include "cli/model_path.h"
#include "engine/base/error.h"
#include "weights_tools/verify.h"

static const char help_text[] =
    "Usage: flatclip verify [MODEL] [options]\n"
    "\n"
    "Checks a model file: that its header is whole, that no value is NaN or infinite, that the\n"
    "sha256 of its weights is the recorded one, that its vocabulary is sound; and computes\n"
    "pictures made by a formula alone and in batches, which must give the same bits. MODEL is a\n"
    "file, else $FLATCLIP_MODEL or the one in the cache folder. (Comparing real weights with\n"
    "published numbers needs texts, which this version does not embed yet.)\n"
    "\n"
    "  -m, --model MODEL      the same as MODEL\n"
    "      --json             one JSON object instead of lines\n"
    "\n"
    "Exit codes\n"
    "  0  all good    2  the command line is wrong    3  something is wrong with the model\n"
    "\n"
    "Example\n"
    "  flatclip verify ViT-B-32.safetensors\n";

enum { MODEL, JSON, HELP, OPTIONS };

static const fc_option options_known[OPTIONS] = {
    [MODEL] = { "model", 'm', FC_OPTION_VALUE, "a model file" },
    [JSON] = { "json", 0, FC_OPTION_FLAG, NULL },
    [HELP] = { "help", 'h', FC_OPTION_FLAG, NULL },
};

typedef struct {
    const char *model;
    int json, help;
} command_line;

static flatclip_status read_command_line(command_line *line, int argc, char **argv,
                                         flatclip_error *err)
{
    fc_option_reader reader = { options_known, OPTIONS, argc, argv, 1, 0, NULL };
    int which;

    while (!line->help && (which = fc_option_next(&reader, err)) != FC_OPTION_END) {
        if (which == FC_OPTION_ERROR)
            return FLATCLIP_ERR_ARGUMENT;
        line->json |= which == JSON;
        line->help |= which == HELP;
        if (which != MODEL && which != FC_OPTION_ARGUMENT)
            continue;
        if (line->model)
            return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "one MODEL at a time: \"%.60s\" is too many",
                           reader.value);
        line->model = reader.value;
    }
    return FLATCLIP_OK;
}

/* -- Printing -------------------------------------------------------------------------------- */

static void print_line(void *user, const char *check, fc_verify_result result, const char *detail)
{
    static const char *const words[] = { "ok", "FAILED", "skipped" };
    (void)user;
    printf("%-12s %-8s %s\n", check, words[result], detail);
    fflush(stdout); /* the next check may take a while */
}

/* user: how many were printed before. */
static void print_json(void *user, const char *check, fc_verify_result result, const char *detail)
{
    static const char *const words[] = { "ok", "failed", "skipped" };
    int *printed = user;
    printf("%s\n    {\"check\": \"%s\", \"result\": \"%s\", \"detail\": ", *printed ? "," : "",
           check, words[result]);
    fc_json_text(stdout, detail);
    putchar('}');
    ++*printed;
}

static int verify_as_json(const char *path)
{
    int printed = 0;
    printf("{\n  \"model\": ");
    fc_json_text(stdout, path);
    printf(",\n  \"checks\": [");
    const int failed = fc_verify(path, print_json, &printed);
    printf("\n  ],\n  \"verified\": %s\n}\n", failed ? "false" : "true");
    return failed;
}

static int verify_as_text(const char *path)
{
    printf("%-12s %-8s %s\n", "model", "", path);
    const int failed = fc_verify(path, print_line, NULL);
    if (failed)
        printf("%d check%s failed\n", failed, failed == 1 ? "" : "s");
    else
        printf("verified\n");
    return failed;
}

int fc_cmd_verify(int argc, char **argv)
{
    command_line line = { NULL, 0, 0 };
    char *path = NULL;
    flatclip_error err;

    if (read_command_line(&line, argc, argv, &err) != FLATCLIP_OK)
        return fc_complain_usage("verify", err.message);
    if (line.help)
        return fc_print_help(help_text);
    if (fc_model_path(line.model, &path, &err) != FLATCLIP_OK)
        return fc_complain_error("verify", &err);
    const int failed = line.json ? verify_as_json(path) : verify_as_text(path);
    free(path);
    return fc_finish_stdout("verify", failed ? FC_EXIT_UNUSABLE : FC_EXIT_OK);
}
