/* The checks of `flatclip verify`. The published numbers of real weights need texts: they are a
 * later check. */
#include "weights_tools/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flatclip.h"
#include "weights_tools/merges.h"
#include "weights_tools/sha256.h"

enum {
    READ_VALUES = 64 << 10,     /* floats that are read at a time */
    PICTURES = 4,
    BATCH = 3                   /* so that four pictures are a full batch and a part of one */
};

typedef struct {
    const char *path;
    fc_safetensors *file;       /* NULL where the header is not good */
    fc_clip_config config;
    fc_verify_fn *on_check;
    void *user;
    int failed;
} verification;

__attribute__((format(printf, 4, 5)))
static void report(verification *v, const char *check, fc_verify_result result, const char *format,
                   ...)
{
    char detail[400];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    v->failed += result == FC_VERIFY_FAILED;
    v->on_check(v->user, check, result, detail);
}

static void report_error(verification *v, const char *check, const flatclip_error *err)
{
    report(v, check, FC_VERIFY_FAILED, "%s", err->message);
}

/* -- Header ---------------------------------------------------------------------------------- */

static flatclip_status open_model(verification *v, flatclip_error *err)
{
    FC_TRY(fc_safetensors_open(v->path, &v->file, err));
    FC_TRY(fc_clip_config_read(v->file, &v->config, err));
    return fc_clip_check_tensors(v->file, &v->config, err);
}

static void check_header(verification *v)
{
    flatclip_error err;
    if (open_model(v, &err) != FLATCLIP_OK) {
        report_error(v, "header", &err);
        fc_safetensors_close(v->file);
        v->file = NULL;
        return;
    }
    report(v, "header", FC_VERIFY_OK, "%zu tensors, image tower %d wide with %d layers%s",
           fc_safetensors_count(v->file), v->config.vision.width, v->config.vision.layers,
           v->config.text.layers ? ", text tower" : ", no text tower");
}

/* -- Values and their hash ------------------------------------------------------------------- */

/* What one pass over all values finds. */
typedef struct {
    fc_sha256 *hash;
    float values[READ_VALUES];
    uint64_t count, bad;
    char first[240];            /* the first bad value */
} value_pass;

static void look_at(value_pass *pass, const fc_tensor *tensor, uint64_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (isfinite(pass->values[i]))
            continue;
        if (!pass->bad++)
            snprintf(pass->first, sizeof pass->first, "tensor %.80s: element %" PRIu64 " is %g",
                     tensor->name, first + i, (double)pass->values[i]);
    }
    pass->count += count;
    fc_sha256_add(pass->hash, pass->values, count * sizeof *pass->values);
}

static flatclip_status read_all(const verification *v, value_pass *pass, flatclip_error *err)
{
    const int tensors = fc_clip_tensor_count(&v->config);
    FC_TRY(fc_sha256_open(&pass->hash, err));
    for (int i = 0; i < tensors; i++) {
        fc_tensor_spec spec;
        fc_clip_tensor_spec(&v->config, i, &spec);
        const fc_tensor *tensor = fc_safetensors_find(v->file, spec.name);
        for (uint64_t first = 0; first < tensor->count; first += READ_VALUES) {
            const uint64_t left = tensor->count - first;
            const size_t count = left < READ_VALUES ? (size_t)left : READ_VALUES;
            FC_TRY(fc_safetensors_read_f32(v->file, tensor, first, count, pass->values, err));
            look_at(pass, tensor, first, count);
        }
    }
    return FLATCLIP_OK;
}

static void compare_hash(verification *v, const char *computed)
{
    const char *said = v->config.weights_sha256;
    if (!said[0])
        report(v, "sha256", FC_VERIFY_FAILED, "the metadata has no weights_sha256; it would be %s",
               computed);
    else if (strcmp(said, computed))
        report(v, "sha256", FC_VERIFY_FAILED,
               "the values have %s, but the metadata says %s: the file was damaged or changed; "
               "convert or fetch it again", computed, said);
    else
        report(v, "sha256", FC_VERIFY_OK, "%s", computed);
}

static void check_values(verification *v)
{
    flatclip_error err = { FLATCLIP_ERR_MEMORY, "no memory to read the values" };
    char hex[65];
    value_pass *pass = calloc(1, sizeof *pass);
    if (!pass || read_all(v, pass, &err) != FLATCLIP_OK) {
        report_error(v, "values", &err);
        report(v, "sha256", FC_VERIFY_SKIPPED, "not all values could be read");
    } else {
        if (pass->bad)
            report(v, "values", FC_VERIFY_FAILED, "%s; %" PRIu64 " of %" PRIu64 " values are not "
                   "finite", pass->first, pass->bad, pass->count);
        else
            report(v, "values", FC_VERIFY_OK, "%" PRIu64 ", all finite", pass->count);
        fc_sha256_close(pass->hash, hex);
        pass->hash = NULL;
        compare_hash(v, hex);
    }
    if (pass)
        fc_sha256_close(pass->hash, NULL);
    free(pass);
}

/* -- Vocabulary ------------------------------------------------------------------------------ */

static flatclip_status read_merges(const verification *v, const fc_tensor *tensor, char **text,
                                   flatclip_error *err)
{
    *text = malloc((size_t)tensor->count + 1);
    if (!*text)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for tensor %s", tensor->name);
    FC_TRY(fc_safetensors_read_bytes(v->file, tensor, 0, tensor->count, *text, err));
    return fc_merges_check(v->path, *text, (size_t)tensor->count, err);
}

static void check_vocabulary(verification *v)
{
    const fc_tensor *tensor = fc_safetensors_find(v->file, FC_MERGES_TENSOR);
    fc_merges builtin = { NULL, 0, "" };
    char *text = NULL;
    flatclip_error err;
    if (!tensor) {
        report(v, "vocabulary", FC_VERIFY_SKIPPED, "the file carries none");
        return;
    }
    if (read_merges(v, tensor, &text, &err) != FLATCLIP_OK ||
        fc_merges_builtin(&builtin, &err) != FLATCLIP_OK) {
        report_error(v, "vocabulary", &err);
    } else {
        const int same = tensor->count == builtin.bytes && !memcmp(text, builtin.text,
                                                                   builtin.bytes);
        report(v, "vocabulary", FC_VERIFY_OK, "%d merges, %s", FC_CLIP_MERGES,
               same ? "those of OpenAI's CLIP" : "others than OpenAI's");
    }
    free(text);
    fc_merges_free(&builtin);
}

/* -- Image tower ----------------------------------------------------------------------------- */

/* Pictures of side S by a formula, all different: waves of several lengths in each channel, so that
 * every patch has content. */
static void draw_pictures(uint8_t *pixels, int side)
{
    for (int p = 0; p < PICTURES; p++)
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                for (int c = 0; c < 3; c++)
                    *pixels++ = (uint8_t)((x * (p + 1) + y * (c + 2) + x * y / (8 + p)) ^
                                          (c * 85 + p * 31));
}

/* A model in use, and its rows: [PICTURES, dim] each. */
typedef struct {
    flatclip_model *model;
    flatclip_session *session;
    uint8_t *pixels;
    float *alone, *together, *moved;
    size_t dim, picture;        /* picture: bytes of one */
} tower_run;

static flatclip_status prepare(const char *path, tower_run *run, flatclip_error *err)
{
    flatclip_session_options options = FLATCLIP_SESSION_OPTIONS_INIT;
    options.max_batch = BATCH;
    FC_TRY(flatclip_model_load(path, NULL, &run->model, err));
    FC_TRY(flatclip_session_create(run->model, &options, &run->session, err));
    const int side = flatclip_model_image_size(run->model);
    run->dim = (size_t)flatclip_model_embed_dim(run->model);
    run->picture = 3 * (size_t)side * (size_t)side;
    run->pixels = malloc(PICTURES * run->picture);
    run->alone = calloc(3 * PICTURES * run->dim, sizeof *run->alone);
    if (!run->pixels || !run->alone)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for pictures");
    run->together = run->alone + PICTURES * run->dim;
    run->moved = run->together + PICTURES * run->dim;
    draw_pictures(run->pixels, side);
    return FLATCLIP_OK;
}

/* Each picture alone, all in batches, and all but the first in batches, where each has another
 * place. */
static flatclip_status compute(tower_run *run, flatclip_error *err)
{
    for (size_t i = 0; i < PICTURES; i++)
        FC_TRY(flatclip_encode_pixels_u8(run->session, run->pixels + i * run->picture, 1,
                                         run->alone + i * run->dim, NULL, err));
    FC_TRY(flatclip_encode_pixels_u8(run->session, run->pixels, PICTURES, run->together, NULL,
                                     err));
    return flatclip_encode_pixels_u8(run->session, run->pixels + run->picture, PICTURES - 1,
                                     run->moved + run->dim, NULL, err);
}

static void judge(verification *v, const tower_run *run)
{
    flatclip_model_info info = FLATCLIP_MODEL_INFO_INIT;
    const size_t row = run->dim * sizeof *run->alone;
    flatclip_model_describe(run->model, &info);
    for (size_t i = 0; i < PICTURES; i++) {
        const float *alone = run->alone + i * run->dim;
        double square = 0;
        for (size_t d = 0; d < run->dim; d++)
            square += (double)alone[d] * (double)alone[d];
        if (!(fabs(sqrt(square) - 1) < 1e-5)) {
            report(v, "image tower", FC_VERIFY_FAILED, "picture %zu gives a row of length %g",
                   i, sqrt(square));
            return;
        }
        if (memcmp(alone, run->together + i * run->dim, row) ||
            (i && memcmp(alone, run->moved + i * run->dim, row))) {
            report(v, "image tower", FC_VERIFY_FAILED,
                   "picture %zu has other bits in a batch than alone on %s: please report this", i,
                   info.backend);
            return;
        }
    }
    report(v, "image tower", FC_VERIFY_OK,
           "%d pictures, unit length, the same bits alone and in batches of %d, on %s", PICTURES,
           BATCH, info.backend);
}

static void check_tower(verification *v)
{
    tower_run run = { .model = NULL };
    flatclip_error err;
    flatclip_status status = prepare(v->path, &run, &err);
    if (status == FLATCLIP_OK)
        status = compute(&run, &err);
    if (status == FLATCLIP_OK)
        judge(v, &run);
    else
        report_error(v, "image tower", &err);
    flatclip_session_free(run.session);
    flatclip_model_free(run.model);
    free(run.pixels);
    free(run.alone);
}

/* -- All ------------------------------------------------------------------------------------- */

int fc_verify(const char *path, fc_verify_fn *on_check, void *user)
{
    static const char *const rest[] = { "values", "sha256", "vocabulary", "image tower" };
    verification v = { .path = path, .on_check = on_check, .user = user };
    check_header(&v);
    if (v.file) {
        check_values(&v);
        check_vocabulary(&v);
        check_tower(&v);
    }
    for (int i = 0; !v.file && i < 4; i++)
        report(&v, rest[i], FC_VERIFY_SKIPPED, "the header is not good");
    fc_safetensors_close(v.file);
    return v.failed;
}
