/* What a checkpoint is, from its tensors, from what belongs to it, and from what is known of it. */
#include "weights_tools/convert_decide.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "weights_tools/registry.h"
#include "weights_tools/sha256.h"
#include "weights_tools/source_config.h"

enum { SURE_WIDTH = 1024 }; /* wider public towers have heads of another size than 64 */

/* -- Dimensions ------------------------------------------------------------------------------ */

static flatclip_status compare(const fc_source_config *beside, const char *what, int said,
                               int found, flatclip_error *err)
{
    if (!said || said == found)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%s says %s %d, but the tensors have %d: does it belong to these weights?",
                   beside->file, what, said, found);
}

static flatclip_status compare_all(const fc_source_config *beside, const fc_clip_config *found,
                                   flatclip_error *err)
{
    const fc_clip_config *said = &beside->said;
    FC_TRY(compare(beside, "patch_size", said->patch_size, found->patch_size, err));
    FC_TRY(compare(beside, "embedding size", said->embed_dim, found->embed_dim, err));
    FC_TRY(compare(beside, "vision width", said->vision.width, found->vision.width, err));
    FC_TRY(compare(beside, "vision layers", said->vision.layers, found->vision.layers, err));
    if (!found->text.layers)
        return FLATCLIP_OK;
    FC_TRY(compare(beside, "text width", said->text.width, found->text.width, err));
    FC_TRY(compare(beside, "text layers", said->text.layers, found->text.layers, err));
    FC_TRY(compare(beside, "context length", said->context_length, found->context_length, err));
    return compare(beside, "vocabulary size", said->vocab_size, found->vocab_size, err);
}

/* Position embeddings for another image size than the configuration's are resampled on demand. */
static flatclip_status decide_grid(const fc_clip_checkpoint *checkpoint,
                                   const fc_convert_options *options,
                                   const fc_source_config *beside, fc_convert_report *report,
                                   flatclip_error *err)
{
    fc_clip_config *config = &report->config;
    const int said = beside->said.image_size, found = config->image_size;
    if (!said || said == found)
        return FLATCLIP_OK;
    if (!options->resize_positions || said % config->patch_size)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%s says image_size %d, but the tensors have %d, position embeddings for a "
                       "grid of %d x %d%s", beside->file, said, found, checkpoint->grid,
                       checkpoint->grid,
                       said % config->patch_size ? ", and is no multiple of their patches"
                       : ": if it belongs to these weights, --resize-pos resamples them");
    config->image_size = said;
    const int grid = said / config->patch_size;
    snprintf(report->positions, sizeof report->positions,
             "resampled from %d x %d to %d x %d (bicubic), as %s has image_size %d",
             checkpoint->grid, checkpoint->grid, grid, grid, beside->file, said);
    return FLATCLIP_OK;
}

static flatclip_status refuse_unsure_heads(const fc_weight_source *source,
                                           const fc_source_config *beside,
                                           const fc_clip_config *config, flatclip_error *err)
{
    if (beside->said.vision.heads || config->vision.width <= SURE_WIDTH)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.100s: nothing tells the number of heads of an image tower of width %d, and "
                   "public ones have heads of other sizes than %d: put the model's configuration "
                   "file beside it", source->path, config->vision.width, FC_HEAD_DIM);
}

/* -- Activation ------------------------------------------------------------------------------ */

/* One thing that tells the activation; activation 0: it does not. */
typedef struct {
    flatclip_activation activation;
    char reason[120];
} evidence;

/* The first of count that tells it decides; the first that contradicts that is mentioned. */
static int weigh(const evidence *all, int count, fc_convert_report *report)
{
    fc_clip_config *config = &report->config;
    int first = 0, other;
    while (first < count && !all[first].activation)
        first++;
    if (first == count)
        return 0;
    config->activation = all[first].activation;
    for (other = first + 1; other < count; other++)
        if (all[other].activation && all[other].activation != config->activation)
            break;
    const int contradicted = other < count;
    snprintf(config->activation_from, sizeof config->activation_from, "%s%s%.*s",
             all[first].reason, contradicted ? ", although " : "", contradicted ? 90 : 0,
             contradicted ? all[other].reason : "");
    snprintf(report->activation, sizeof report->activation, "%s: %s",
             fc_activation_word(config->activation), config->activation_from);
    return 1;
}

static flatclip_status decide_activation(const fc_weight_source *source,
                                         const fc_convert_options *options,
                                         const fc_source_config *beside,
                                         fc_convert_report *report, flatclip_error *err)
{
    evidence all[4] = { { options->activation, "as asked" }, { beside->said.activation, "" } };
    const fc_registry_entry *known = fc_registry_by_sha256(report->config.source_sha256);
    memcpy(all[1].reason, beside->activation_reason, sizeof all[1].reason);
    if (known) {
        all[2].activation = known->activation;
        snprintf(all[2].reason, sizeof all[2].reason, "its sha256 is that of %.60s", known->name);
    }
    all[3].activation = source->activation;
    memcpy(all[3].reason, source->activation_reason, sizeof all[3].reason);
    if (weigh(all, 4, report))
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_FORMAT,
                   "%.90s: %s. Give --activation quickgelu (OpenAI's weights) or gelu (most "
                   "open_clip weights)", source->path,
                   beside->activation_reason[0] ? beside->activation_reason
                                                : "nothing in it or beside it tells the "
                                                  "activation");
}

/* -- All together ---------------------------------------------------------------------------- */

/* What the file itself says, where it is one of ours; else what lies beside it. */
static flatclip_status read_beside(const fc_weight_source *source,
                                   const fc_clip_checkpoint *checkpoint, fc_source_config *beside,
                                   flatclip_error *err)
{
    memset(beside, 0, sizeof *beside);
    if (!source->own_config || !source->own_config(source, &beside->said))
        return fc_source_config_read(source->path, checkpoint->layout, beside, err);
    snprintf(beside->file, sizeof beside->file, "its metadata");
    snprintf(beside->activation_reason, sizeof beside->activation_reason, "%.119s",
             beside->said.activation_from[0] ? beside->said.activation_from
                                             : "its metadata says so");
    snprintf(beside->recipe_reason, sizeof beside->recipe_reason, "its metadata says so");
    return FLATCLIP_OK;
}

/* A thread's work: the hash of all files of a source. */
typedef struct {
    const fc_weight_source *source;
    char *hex;                  /* [65] */
    flatclip_status status;
    flatclip_error err;
} hashing;

static void *hash_files(void *user)
{
    hashing *h = user;
    const char *file;
    fc_sha256 *hash;
    h->status = fc_sha256_open(&hash, &h->err);
    for (size_t i = 0; h->status == FLATCLIP_OK && (file = fc_weight_source_file(h->source, i));
         i++)
        h->status = fc_sha256_add_file(hash, file, &h->err);
    if (hash)
        fc_sha256_close(hash, h->hex);
    return NULL;
}

/* Hashes the files while their own checksums are checked, which takes as long. */
static flatclip_status hash_and_check(const fc_weight_source *source, char hex[65],
                                      flatclip_error *err)
{
    pthread_t thread;
    hashing h = { .source = source, .hex = hex };
    const int threaded = source->check && !pthread_create(&thread, NULL, hash_files, &h);
    if (!threaded)
        hash_files(&h);
    const flatclip_status status = source->check ? source->check(source, err) : FLATCLIP_OK;
    if (threaded)
        pthread_join(thread, NULL);
    if (status == FLATCLIP_OK && h.status != FLATCLIP_OK)
        return fc_fail(err, h.status, "%s", h.err.message);
    return status;
}

/* Where the weights are from: a model file of ours says it; else it is the file. */
static flatclip_status name_source(const fc_weight_source *source, const fc_source_config *beside,
                                   fc_clip_config *config, flatclip_error *err)
{
    const char *slash = strrchr(source->path, '/');
    memcpy(config->source, beside->said.source, sizeof config->source);
    memcpy(config->source_sha256, beside->said.source_sha256, sizeof config->source_sha256);
    if (config->source[0])
        return FLATCLIP_OK;
    snprintf(config->source, sizeof config->source, "%.120s", slash ? slash + 1 : source->path);
    return hash_and_check(source, config->source_sha256, err);
}

static void describe(const fc_clip_checkpoint *checkpoint, const fc_source_config *beside,
                     fc_convert_report *report)
{
    fc_clip_config *config = &report->config;
    config->recipe = beside->said.recipe;
    memcpy(config->mean, beside->said.mean, sizeof config->mean);
    memcpy(config->std, beside->said.std, sizeof config->std);
    snprintf(report->layout, sizeof report->layout, "%s%s%s",
             checkpoint->layout == FC_LAYOUT_HF ? "Hugging Face transformers"
                                                : "OpenAI's and open_clip's",
             checkpoint->prefix[0] ? ", with the prefix " : "", checkpoint->prefix);
    snprintf(report->recipe, sizeof report->recipe, "%s: %s",
             fc_recipe_word(config->recipe), beside->recipe_reason);
}

flatclip_status fc_convert_decide(fc_clip_checkpoint *checkpoint, const fc_convert_options *options,
                                  fc_convert_report *report, flatclip_error *err)
{
    const fc_weight_source *source = checkpoint->source;
    fc_clip_config *config = &report->config;
    fc_source_config beside;
    FC_TRY(fc_clip_checkpoint_infer(checkpoint, config, err));
    FC_TRY(read_beside(source, checkpoint, &beside, err));
    FC_TRY(compare_all(&beside, config, err));
    FC_TRY(decide_grid(checkpoint, options, &beside, report, err));
    FC_TRY(refuse_unsure_heads(source, &beside, config, err));
    describe(checkpoint, &beside, report);
    FC_TRY(fc_clip_config_check(config, source->path, err));
    FC_TRY(name_source(source, &beside, config, err));
    return decide_activation(source, options, &beside, report, err);
}
