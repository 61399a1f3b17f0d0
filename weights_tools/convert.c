/* Public checkpoints in, our model file out: decide what the model is, then copy tensor by tensor.
 *
 * What passes through memory is one piece of a tensor at a time, or the whole of one that must be
 * turned round, gathered or resampled. */
#define _GNU_SOURCE
#include "weights_tools/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "weights_tools/convert_decide.h"
#include "weights_tools/merges.h"
#include "weights_tools/model_writer.h"
#include "weights_tools/resize_positions.h"

enum { COPY_VALUES = 64 << 10 }; /* floats that pass at a time */

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

/* Position embeddings of another grid than the model is to have. */
static flatclip_status copy_resized(const fc_clip_checkpoint *checkpoint,
                                    const fc_clip_config *config, const fc_tensor *tensor,
                                    fc_model_writer *writer, flatclip_error *err)
{
    const int grid = config->image_size / config->patch_size;
    const size_t rows = (size_t)grid * (size_t)grid + 1, width = (size_t)config->vision.width;
    float *from = malloc((size_t)tensor->count * sizeof *from);
    float *to = malloc(rows * width * sizeof *to);
    flatclip_status status =
        from && to ? checkpoint->source->read(checkpoint->source, tensor, 0, tensor->count, from,
                                              err)
                   : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for tensor %.80s", tensor->name);
    if (status == FLATCLIP_OK)
        status = fc_resize_positions(from, checkpoint->grid, to, grid, config->vision.width, err);
    if (status == FLATCLIP_OK)
        status = fc_model_writer_append(writer, to, rows * width, err);
    free(from);
    free(to);
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
        const int resized = !strcmp(spec.name, "visual.positional_embedding") &&
                            part[0]->count != spec.count;
        for (int k = 0; k < parts; k++) {
            if (resized)
                FC_TRY(copy_resized(checkpoint, config, part[k], writer, err));
            else if (transposed)
                FC_TRY(copy_transposed(checkpoint->source, part[k], writer, err));
            else
                FC_TRY(copy_straight(checkpoint->source, part[k], buffer, writer, err));
        }
    }
    return FLATCLIP_OK;
}

/* A model file of ours brings its vocabulary along. */
static flatclip_status read_own_merges(const fc_weight_source *source, const fc_tensor *tensor,
                                       fc_merges *merges, flatclip_error *err)
{
    if (!source->read_bytes || tensor->count > FC_MERGES_LIMIT)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s: tensor %s is not a list of at most %d "
                       "bytes", source->path, tensor->name, FC_MERGES_LIMIT);
    merges->text = malloc((size_t)tensor->count + 1);
    merges->bytes = (size_t)tensor->count;
    snprintf(merges->origin, sizeof merges->origin, "the model file's own");
    flatclip_status status =
        merges->text ? source->read_bytes(source, tensor, 0, tensor->count, merges->text, err)
                     : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for tensor %s", tensor->name);
    if (status == FLATCLIP_OK)
        status = fc_merges_check(source->path, merges->text, merges->bytes, err);
    if (status != FLATCLIP_OK)
        fc_merges_free(merges);
    return status;
}

/* The vocabulary that goes with the text tower, if that is CLIP's. */
static flatclip_status find_merges(const fc_weight_source *source, fc_convert_report *report,
                                   fc_merges *merges, flatclip_error *err)
{
    memset(merges, 0, sizeof *merges);
    if (!report->config.text.layers || report->config.vocab_size != FC_CLIP_VOCABULARY)
        return FLATCLIP_OK;
    const size_t own = fc_weight_source_find(source, FC_MERGES_TENSOR);
    FC_TRY(own < source->count ? read_own_merges(source, source->at(source, own), merges, err)
                               : fc_merges_beside(source->path, merges, err));
    snprintf(report->vocabulary, sizeof report->vocabulary, "%d merges: %s", FC_CLIP_MERGES,
             merges->origin);
    return FLATCLIP_OK;
}

static flatclip_status write_model(const fc_clip_checkpoint *checkpoint, const fc_dtype *dtypes,
                                   const char *path, fc_convert_report *report,
                                   flatclip_error *err)
{
    fc_model_writer *writer;
    fc_merges merges;
    FC_TRY(find_merges(checkpoint->source, report, &merges, err));
    float *buffer = malloc(COPY_VALUES * sizeof *buffer);
    flatclip_status status =
        buffer ? fc_model_writer_open(path, &report->config, dtypes, &merges, &writer, err)
               : fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to convert %.200s",
                         checkpoint->source->path);
    if (status == FLATCLIP_OK) {
        status = copy_tensors(checkpoint, &report->config, buffer, writer, err);
        if (status == FLATCLIP_OK)
            status = fc_model_writer_commit(writer, report->config.weights_sha256, err);
        else
            fc_model_writer_abandon(writer);
    }
    free(buffer);
    fc_merges_free(&merges);
    return status;
}

/* -- All together ---------------------------------------------------------------------------- */

/* Converting onto the source itself would destroy the only copy. */
static flatclip_status refuse_source(const fc_weight_source *source, const char *path,
                                     flatclip_error *err)
{
    struct stat a, b;
    const char *file;
    for (size_t i = 0; (file = fc_weight_source_file(source, i)) != NULL; i++)
        if (!stat(file, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                           "%.200s is the source itself: choose another name for the model", path);
    return FLATCLIP_OK;
}

/* What lies beside the tensors in the file, and the tensors that hold no weights, as one line. */
static void report_left_out(const fc_weight_source *source, const char *tensors,
                            fc_convert_report *report)
{
    snprintf(report->ignored, sizeof report->ignored, "%s%s%s", source->left_out,
             source->left_out[0] && tensors[0] ? "; " : "", tensors);
}

static flatclip_status convert_checkpoint(fc_clip_checkpoint *checkpoint,
                                          const fc_convert_options *options, const char *path,
                                          fc_convert_report *report, flatclip_error *err)
{
    const fc_weight_source *source = checkpoint->source;
    char ignored[160] = "";
    FC_TRY(fc_convert_decide(checkpoint, options, report, err));
    const size_t count = (size_t)fc_clip_tensor_count(&report->config);
    fc_dtype *dtypes = calloc(count, sizeof *dtypes);
    if (!dtypes)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to convert %.200s", source->path);
    flatclip_status status = fc_clip_checkpoint_check(checkpoint, &report->config, dtypes, ignored,
                                                      sizeof ignored, err);
    for (size_t i = 0; i < count && !options->keep_dtype; i++)
        dtypes[i] = options->dtype;
    report_left_out(source, ignored, report);
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
    flatclip_status status = refuse_source(weights, path, err);
    if (status == FLATCLIP_OK) {
        status = fc_clip_checkpoint_open(weights, &checkpoint, err);
        if (status == FLATCLIP_OK)
            status = convert_checkpoint(&checkpoint, options, path, report, err);
    }
    fc_clip_checkpoint_close(&checkpoint);
    fc_weight_source_close(weights);
    return status;
}
