/* Public checkpoints in, our model file out: decide what the model is, then copy tensor by tensor.
 *
 * Dimensions come from the shapes of tensors, which cannot be wrong; configuration files only add
 * what shapes do not tell, and must agree with them. The activation is never guessed: the wrong
 * one gives plausible but worse embeddings, silently. */
#define _GNU_SOURCE
#include "weights_tools/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights_tools/clip_checkpoint.h"
#include "weights_tools/model_writer.h"
#include "weights_tools/source_config.h"

enum {
    COPY_VALUES = 64 << 10,     /* floats that pass at a time */
    SURE_WIDTH = 1024           /* wider public towers have heads of another size than 64 */
};

/* -- Deciding -------------------------------------------------------------------------------- */

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
    FC_TRY(compare(beside, "image_size", said->image_size, found->image_size, err));
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

static flatclip_status decide_activation(const fc_weight_source *source,
                                         const fc_convert_options *options,
                                         const fc_source_config *beside,
                                         fc_convert_report *report, flatclip_error *err)
{
    fc_clip_config *config = &report->config;
    config->activation = options->activation ? options->activation : beside->said.activation;
    if (!config->activation)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.90s: %s. Give --activation quickgelu (OpenAI's weights) or gelu (most "
                       "open_clip weights)", source->path,
                       beside->activation_reason[0] ? beside->activation_reason
                                                    : "nothing beside it tells the activation");
    if (options->activation && beside->said.activation &&
        options->activation != beside->said.activation)
        snprintf(report->activation, sizeof report->activation, "%s, as asked, although %s",
                 fc_activation_word(config->activation), beside->activation_reason);
    else
        snprintf(report->activation, sizeof report->activation, "%s: %s",
                 fc_activation_word(config->activation),
                 options->activation ? "as asked" : beside->activation_reason);
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

/* What the file itself says, where it is one of ours; else what lies beside it. */
static flatclip_status read_beside(const fc_weight_source *source,
                                   const fc_clip_checkpoint *checkpoint, fc_source_config *beside,
                                   flatclip_error *err)
{
    memset(beside, 0, sizeof *beside);
    if (!source->own_config(source, &beside->said))
        return fc_source_config_read(source->path, checkpoint->layout, beside, err);
    snprintf(beside->file, sizeof beside->file, "its metadata");
    snprintf(beside->activation_reason, sizeof beside->activation_reason, "its metadata says so");
    snprintf(beside->recipe_reason, sizeof beside->recipe_reason, "its metadata says so");
    return FLATCLIP_OK;
}

/* Fills report->config but for hashes; source only where the file itself names one. */
static flatclip_status decide(const fc_clip_checkpoint *checkpoint,
                              const fc_convert_options *options, fc_convert_report *report,
                              flatclip_error *err)
{
    const fc_weight_source *source = checkpoint->source;
    fc_clip_config *config = &report->config;
    fc_source_config beside;
    FC_TRY(fc_clip_checkpoint_infer(checkpoint, config, err));
    FC_TRY(read_beside(source, checkpoint, &beside, err));
    FC_TRY(compare_all(&beside, config, err));
    FC_TRY(refuse_unsure_heads(source, &beside, config, err));
    FC_TRY(decide_activation(source, options, &beside, report, err));
    config->recipe = beside.said.recipe;
    memcpy(config->mean, beside.said.mean, sizeof config->mean);
    memcpy(config->std, beside.said.std, sizeof config->std);
    memcpy(config->source, beside.said.source, sizeof config->source);
    memcpy(config->source_sha256, beside.said.source_sha256, sizeof config->source_sha256);
    snprintf(report->layout, sizeof report->layout, "%s%s%s",
             checkpoint->layout == FC_LAYOUT_HF ? "Hugging Face transformers"
                                                : "OpenAI's and open_clip's",
             checkpoint->prefix[0] ? ", with the prefix " : "", checkpoint->prefix);
    snprintf(report->recipe, sizeof report->recipe, "%s: %s",
             fc_recipe_word(config->recipe), beside.recipe_reason);
    return fc_clip_config_check(config, source->path, err);
}

/* -- Naming the source ----------------------------------------------------------------------- */

static flatclip_status hash_file(const char *path, char hex[65], flatclip_error *err)
{
    enum { BYTES = 1 << 18 };
    unsigned char digest[32];
    unsigned char *buffer = malloc(BYTES);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    FILE *file = fopen(path, "rb");
    flatclip_status status = FLATCLIP_OK;
    if (!buffer || !hash || !EVP_DigestInit_ex(hash, EVP_sha256(), NULL))
        status = fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", path);
    else if (!file)
        status = fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", path, strerror(errno));
    for (size_t got = 1; status == FLATCLIP_OK && got;) {
        got = fread(buffer, 1, BYTES, file);
        EVP_DigestUpdate(hash, buffer, got);
        if (ferror(file))
            status = fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", path,
                             strerror(errno));
    }
    if (status == FLATCLIP_OK) {
        EVP_DigestFinal_ex(hash, digest, NULL);
        for (int i = 0; i < 32; i++)
            snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    if (file)
        fclose(file);
    EVP_MD_CTX_free(hash);
    free(buffer);
    return status;
}

/* Converting onto the source itself would destroy the only copy. */
static flatclip_status refuse_same_file(const char *source, const char *path, flatclip_error *err)
{
    struct stat a, b;
    if (stat(source, &a) || stat(path, &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                   "%.200s is the source itself: choose another name for the model", path);
}

/* -- Copying --------------------------------------------------------------------------------- */

/* A matrix that the checkpoint has the other way round. It is read whole: these are projections,
 * the smallest matrices of a model. */
static flatclip_status copy_transposed(const fc_weight_source *source, const fc_tensor *tensor,
                                       fc_model_writer *writer, flatclip_error *err)
{
    const size_t rows = (size_t)tensor->dim[1], columns = (size_t)tensor->dim[0];
    float *whole = malloc((rows + 1) * columns * sizeof *whole); /* and one row for the output */
    if (!whole)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for tensor %.80s", tensor->name);
    float *row = whole + rows * columns;
    flatclip_status status = source->read(source, tensor, 0, tensor->count, whole, err);
    for (size_t r = 0; r < rows && status == FLATCLIP_OK; r++) {
        for (size_t c = 0; c < columns; c++)
            row[c] = whole[c * rows + r];
        status = fc_model_writer_append(writer, row, columns, err);
    }
    free(whole);
    return status;
}

static flatclip_status copy_straight(const fc_weight_source *source, const fc_tensor *tensor,
                                     float *buffer, fc_model_writer *writer, flatclip_error *err)
{
    for (uint64_t first = 0; first < tensor->count; first += COPY_VALUES) {
        const uint64_t left = tensor->count - first;
        const size_t count = left < COPY_VALUES ? (size_t)left : COPY_VALUES;
        FC_TRY(source->read(source, tensor, first, count, buffer, err));
        FC_TRY(fc_model_writer_append(writer, buffer, count, err));
    }
    return FLATCLIP_OK;
}

static flatclip_status copy_tensors(const fc_clip_checkpoint *checkpoint,
                                    const fc_clip_config *config, float *buffer,
                                    fc_model_writer *writer, flatclip_error *err)
{
    const int count = fc_clip_tensor_count(config);
    for (int i = 0; i < count; i++) {
        fc_tensor_spec spec;
        const fc_tensor *part[3];
        char missing[160];
        int transposed;
        fc_clip_tensor_spec(config, i, &spec);
        const int parts = fc_clip_checkpoint_parts(checkpoint, spec.name, part, &transposed,
                                                   missing);
        for (int k = 0; k < parts; k++) {
            if (transposed)
                FC_TRY(copy_transposed(checkpoint->source, part[k], writer, err));
            else
                FC_TRY(copy_straight(checkpoint->source, part[k], buffer, writer, err));
        }
    }
    return FLATCLIP_OK;
}

static flatclip_status write_model(const fc_clip_checkpoint *checkpoint, const fc_dtype *dtypes,
                                   const char *path, fc_convert_report *report,
                                   flatclip_error *err)
{
    fc_model_writer *writer;
    float *buffer = malloc(COPY_VALUES * sizeof *buffer);
    if (!buffer)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to convert %.200s",
                       checkpoint->source->path);
    flatclip_status status = fc_model_writer_open(path, &report->config, dtypes, &writer, err);
    if (status == FLATCLIP_OK) {
        status = copy_tensors(checkpoint, &report->config, buffer, writer, err);
        if (status == FLATCLIP_OK)
            status = fc_model_writer_commit(writer, report->config.weights_sha256, err);
        else
            fc_model_writer_abandon(writer);
    }
    free(buffer);
    return status;
}

/* -- All together ---------------------------------------------------------------------------- */

static flatclip_status convert_checkpoint(fc_clip_checkpoint *checkpoint,
                                          const fc_convert_options *options, const char *path,
                                          fc_convert_report *report, flatclip_error *err)
{
    fc_clip_config *config = &report->config;
    const char *file = checkpoint->source->path;
    const char *slash = strrchr(file, '/');
    FC_TRY(decide(checkpoint, options, report, err));
    const size_t count = (size_t)fc_clip_tensor_count(config);
    fc_dtype *dtypes = calloc(count, sizeof *dtypes);
    if (!dtypes)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to convert %.200s", file);
    flatclip_status status = fc_clip_checkpoint_check(checkpoint, config, dtypes, report->ignored,
                                                      sizeof report->ignored, err);
    for (size_t i = 0; i < count && !options->keep_dtype; i++)
        dtypes[i] = options->dtype;
    if (!config->source[0]) {
        snprintf(config->source, sizeof config->source, "%.120s", slash ? slash + 1 : file);
        if (status == FLATCLIP_OK)
            status = hash_file(file, config->source_sha256, err);
    }
    if (status == FLATCLIP_OK)
        status = write_model(checkpoint, dtypes, path, report, err);
    free(dtypes);
    return status;
}

flatclip_status fc_convert(const char *source, const fc_convert_options *options, const char *path,
                           fc_convert_report *report, flatclip_error *err)
{
    fc_convert_report own;
    fc_weight_source *weights;
    fc_clip_checkpoint checkpoint = { 0 };
    report = report ? report : &own;
    memset(report, 0, sizeof *report);
    FC_TRY(fc_weight_source_open(source, &weights, err));
    flatclip_status status = refuse_same_file(weights->path, path, err);
    if (status == FLATCLIP_OK) {
        status = fc_clip_checkpoint_open(weights, &checkpoint, err);
        if (status == FLATCLIP_OK)
            status = convert_checkpoint(&checkpoint, options, path, report, err);
    }
    fc_clip_checkpoint_close(&checkpoint);
    fc_weight_source_close(weights);
    return status;
}
