/* flatclip: finds the command and runs it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/suggest.h"

static const char help_text[] =
    "Usage: flatclip COMMAND [options]\n"
    "\n"
    "Turns pictures into CLIP embeddings, with every byte of memory fixed beforehand.\n"
    "\n"
    "Commands\n"
    "  embed     pictures to embeddings (.npy, or JSON lines)\n"
    "  info      what a model file is, and the memory that it takes\n"
    "  fetch     public weights from the web, checked and made into a model file\n"
    "  convert   a model file from public weights: OpenAI, Hugging Face, open_clip\n"
    "  verify    whether a model file is whole, and computes as it should\n"
    "  synth     a model file with seeded random weights, to try and to test with\n"
    "\n"
    "  flatclip COMMAND --help  explains a command\n"
    "  flatclip --version       prints the version\n"
    "\n"
    "Exit codes\n"
    "  0  all good              2  the command line is wrong\n"
    "  1  some inputs failed    3  model, device or output cannot be used\n"
    "\n"
    "Example\n"
    "  flatclip embed -m ViT-B-32.safetensors -o photos.npy ~/Pictures\n";

static const struct {
    const char *name;
    fc_command_fn *run; /* NULL: a later version has it */
} commands[] = {
    { "embed", fc_cmd_embed },     { "info", fc_cmd_info }, { "convert", fc_cmd_convert },
    { "fetch", fc_cmd_fetch },     { "synth", fc_cmd_synth }, { "verify", fc_cmd_verify },
    { "classify", NULL },          { "index", NULL },      { "search", NULL },
    { "dedupe", NULL },            { "eval", NULL },
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* A descriptor 0 to 2 that is closed would be given to the first file that is opened, and messages
 * would go into it. Opened for the wrong direction, it fails as a closed one does. */
static void fill_standard_descriptors(void)
{
    static const int directions[] = { O_WRONLY, O_RDONLY, O_WRONLY };

    for (int i = 0; i <= 2; i++) {
        if (fcntl(i, F_GETFD) < 0 && open("/dev/null", directions[i]) != i)
            return;
    }
}

static int print_version(void)
{
    const int version = flatclip_version();

    printf("flatclip %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    return fc_finish_stdout("--version", FC_EXIT_OK);
}

static int unknown_command(const char *name)
{
    fc_suggestion near = { name, NULL, 0 };

    for (int i = 0; i < COMMANDS; i++) {
        if (!commands[i].run && strcmp(commands[i].name, name) == 0) {
            fprintf(stderr, "flatclip: this version has no command %s yet\n", name);
            return FC_EXIT_USAGE;
        }
        if (commands[i].run)
            fc_suggest(&near, commands[i].name);
    }
    fprintf(stderr, "flatclip: unknown %s %.60s", name[0] == '-' ? "option" : "command", name);
    if (near.best)
        fprintf(stderr, "; did you mean %s?", near.best);
    fputs("\nTry `flatclip --help`.\n", stderr);
    return FC_EXIT_USAGE;
}

static int run_command(int argc, char **argv)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (commands[i].run && strcmp(commands[i].name, argv[0]) == 0)
            return commands[i].run(argc, argv);
    }
    return unknown_command(argv[0]);
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    fc_output_file_catch_signals();
    if (argc < 2) {
        fputs(help_text, stderr);
        return FC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    if (strcmp(argv[1], "help") == 0 && argc == 3) {
        char *question[] = { argv[2], "--help", NULL };
        return run_command(2, question);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return fc_print_help(help_text);
    return run_command(argc - 1, argv + 1);
}
