/* `flatclip embed`: pictures in, embeddings out. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/embed_options.h"
#include "cli/engine_options.h"
#include "cli/model_path.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/walk.h"
#include "engine/base/error.h"

static const char help_text[] =
    "Usage: flatclip embed [-m MODEL] [-o OUT] [options] PATH...\n"
    "\n"
    "Turns pictures into CLIP embeddings of length 1. PATH is a picture (JPEG or PNG, told by\n"
    "its content), a folder (searched with all that is in it, in bytewise order of the paths)\n"
    "or - for one picture on standard input.\n"
    "\n"
    "Input and output\n"
    "  -m, --model MODEL     model file; else $FLATCLIP_MODEL, else the one in the cache folder\n"
    "  -o, --output OUT      OUT.npy: float32 [rows, size], and OUT.jsonl beside it with a line\n"
    "                        for each input. OUT.jsonl: these lines with the embeddings.\n"
    "                        Without -o such lines go to standard output\n"
    "      --from-file LIST  read paths from LIST, or - for standard input; they end with a\n"
    "                        newline, or with NUL if there is any NUL in it\n"
    "  -0, --null            paths in LIST end with NUL in any case\n"
    "      --shard I/N       take part I of N of the inputs, counted from 1; the outputs of all\n"
    "                        parts, one after the other, are the output of the whole\n"
    "  -q, --quiet           print only errors\n"
    "\n"
    "Preparing pictures\n"
    "      --recipe WORD     openai or hf; default: what the model asks for\n"
    "      --exif-rotate     turn pictures upright as their EXIF says (CLIP itself does not)\n"
    "      --max-pixels N    refuse larger pictures; default: 178956970\n"
    "      --no-normalize    leave embeddings at the length that the model gives them\n"
    "\n"
    "Computing\n"
    "      --device WORD     auto (default), cpu, cuda or cuda:N\n"
    "      --precision WORD  auto (default), f32, bf16, f16 or int8\n"
    "      --batch N         pictures at one time, 1 to 1024; default: 32. It fixes the memory\n"
    "      --threads N       threads in all, 1 to 256; default: the CPUs that it may use\n"
    "\n"
    "Exit codes\n"
    "  0  all inputs have embeddings            2  the command line is wrong\n"
    "  1  some inputs failed; the rest is good  3  model, device or output cannot be used\n"
    "\n"
    "Examples\n"
    "  flatclip embed -m ViT-B-32.safetensors -o photos.npy ~/Pictures\n"
    "  find . -name '*.jpg' -print0 | flatclip embed -o photos.npy --from-file -\n"
    "  curl -s https://example.org/cat.jpg | flatclip embed - > cat.jsonl\n";

/* What the engine opens for "-". Entries are told by this very pointer, so that a file of the same
 * name is still reported under the name that the user gave. */
static const char standard_input[] = "/dev/stdin";

typedef struct {
    const fc_embed_options *options;
    char *model_path;
    flatclip_model *model;
    flatclip_session *session;
    flatclip_model_info info;
    fc_path_list listed; /* from --from-file */
    fc_path_list inputs;
    fc_walk_skipped skipped;
    fc_output *output;
    fc_progress progress;
    size_t failed;
    flatclip_error write_error; /* why writing a result failed, if it did */
} embedding_run;

static flatclip_status load_model(embedding_run *run, flatclip_error *err)
{
    const fc_embed_options *options = run->options;
    flatclip_model_options engine = options->engine;

    engine.threads = options->session.threads; /* --threads holds while loading too */
    run->info = (flatclip_model_info)FLATCLIP_MODEL_INFO_INIT;
    FC_TRY(fc_model_path(options->model, &run->model_path, err));
    FC_TRY(flatclip_model_load(run->model_path, &engine, &run->model, err));
    flatclip_model_describe(run->model, &run->info);
    return FLATCLIP_OK;
}

/* A session for these inputs: fewer of them than a batch need less memory. */
static flatclip_status open_session(embedding_run *run, flatclip_error *err)
{
    flatclip_session_options session = run->options->session;
    const size_t batch = session.max_batch ? (size_t)session.max_batch : FLATCLIP_DEFAULT_BATCH;
    const size_t inputs = run->inputs.count;

    session.max_batch = (int)(inputs == 0 ? 1 : inputs < batch ? inputs : batch);
    return flatclip_session_create(run->model, &session, &run->session, err);
}

static flatclip_status collect_inputs(embedding_run *run, flatclip_error *err)
{
    const fc_embed_options *options = run->options;

    for (size_t i = 0; i < options->path_count; i++) {
        if (strcmp(options->paths[i], "-") == 0)
            FC_TRY(fc_path_list_borrow(&run->inputs, standard_input, err));
        else
            FC_TRY(fc_walk(options->paths[i], &run->inputs, &run->skipped, err));
    }
    for (size_t i = 0; i < run->listed.count; i++)
        FC_TRY(fc_walk(run->listed.paths[i], &run->inputs, &run->skipped, err));
    return FLATCLIP_OK;
}

static void report_skipped(const embedding_run *run)
{
    const fc_walk_skipped *skipped = &run->skipped;

    if (!run->options->quiet && skipped->hidden + skipped->other > 0)
        fprintf(stderr,
                "flatclip embed: skipped in folders: %zu that are no pictures, %zu hidden\n",
                skipped->other, skipped->hidden);
    if (!run->options->quiet && run->inputs.count == 0)
        fprintf(stderr, "flatclip embed: no pictures found; the output is empty\n");
}

static int on_result(void *user, size_t index, const float *embedding, const flatclip_error *error)
{
    embedding_run *run = user;
    const char *opened = run->inputs.paths[index];
    const char *path = opened == standard_input ? "-" : opened;
    flatclip_status status;

    if (embedding) {
        status = fc_output_row(run->output, path, embedding, &run->write_error);
    } else {
        run->failed++;
        fc_progress_clear(&run->progress);
        fc_complain_input(path, error->message);
        status = fc_output_failure(run->output, path, error->message, &run->write_error);
    }
    fc_progress_update(&run->progress, index + 1);
    return status != FLATCLIP_OK;
}

/* Encodes the inputs and publishes the output. */
static flatclip_status encode(embedding_run *run, flatclip_error *err)
{
    const size_t count = run->inputs.count;

    FC_TRY(fc_output_reserve(run->output, count, err));
    fc_progress_start(&run->progress, count, run->options->quiet);
    const flatclip_status status = flatclip_encode_files_each(
        run->session, run->inputs.paths, count, on_result, run, err);
    fc_progress_clear(&run->progress);
    if (status == FLATCLIP_ERR_STOPPED) {
        *err = run->write_error;
        return err->status;
    }
    if (status != FLATCLIP_OK && status != FLATCLIP_ERR_ITEMS)
        return status;
    return fc_output_publish(run->output, err);
}

static void take_shard(embedding_run *run)
{
    size_t first, length;

    fc_embed_shard(run->options, run->inputs.count, &first, &length);
    if (length > 0)
        memmove(run->inputs.paths, run->inputs.paths + first, length * sizeof *run->inputs.paths);
    run->inputs.count = length;
}

static flatclip_status run_all(embedding_run *run, flatclip_error *err)
{
    FC_TRY(load_model(run, err));
    /* Before the search and the work, which may take hours. */
    FC_TRY(fc_output_open(run->options->output, run->info.embed_dim, &run->output, err));
    FC_TRY(collect_inputs(run, err));
    take_shard(run);
    report_skipped(run);
    FC_TRY(open_session(run, err));
    return encode(run, err);
}

static void report_summary(const embedding_run *run, double seconds)
{
    const size_t rows = fc_output_rows(run->output), inputs = rows + run->failed;
    const flatclip_model_options *asked = &run->options->engine;

    fprintf(stderr, "inputs %zu, rows %zu, errors %zu; %.2f s, %.1f images/s; ", inputs, rows,
            run->failed, seconds, seconds > 0 ? (double)inputs / seconds : 0.0);
    fprintf(stderr, "%s on %s%s in %s%s\n", run->model_path, run->info.backend,
            asked->device == FLATCLIP_DEVICE_AUTO ? " (auto)" : "",
            fc_precision_word(run->info.precision),
            asked->precision == FLATCLIP_PRECISION_AUTO ? " (auto)" : "");
    if (run->info.fallback[0])
        fprintf(stderr, "note: computed on the CPU, because: %s\n", run->info.fallback);
}

static void free_run(embedding_run *run)
{
    fc_output_free(run->output);
    flatclip_session_free(run->session);
    flatclip_model_free(run->model);
    fc_path_list_free(&run->inputs);
    fc_path_list_free(&run->listed);
    free(run->model_path);
}

static int embed(const fc_embed_options *options)
{
    embedding_run run = { .options = options };
    flatclip_error err = { FLATCLIP_OK, "" };
    int code = FC_EXIT_UNUSABLE;

    if (options->list && fc_path_list_read(&run.listed, options->list, options->list_only_nul,
                                           &err) != FLATCLIP_OK) {
        code = fc_complain_usage("embed", err.message);
    } else {
        const flatclip_status status = run_all(&run, &err);
        const double seconds = fc_progress_clock() - run.progress.started;
        if (status == FLATCLIP_OK) {
            code = run.failed > 0 ? FC_EXIT_ITEMS : FC_EXIT_OK;
            if (!options->quiet)
                report_summary(&run, seconds);
        } else if (!run.output || !fc_output_reader_left(run.output)) {
            fc_complain_error("embed", &err);
        }
    }
    free_run(&run);
    return code;
}

int fc_cmd_embed(int argc, char **argv)
{
    fc_embed_options options;
    flatclip_error err;
    int code;

    if (fc_embed_options_read(&options, argc, argv, &err) != FLATCLIP_OK)
        code = fc_complain_usage("embed", err.message);
    else if (options.help)
        code = fc_print_help(help_text);
    else
        code = embed(&options);
    fc_embed_options_free(&options);
    return code;
}
