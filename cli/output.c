/* The three kinds of output behind one set of functions; see output.h. */
#include "cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json_text.h"
#include "cli/npy.h"
#include "cli/output_file.h"
#include "engine/base/error.h"

struct fc_output {
    int columns;
    size_t rows;
    fc_output_file matrix; /* .npy, or none */
    fc_output_file lines;  /* .jsonl, or none */
    FILE *text;            /* where lines go: that of lines, or standard output */
    int reader_left;       /* nonzero: standard output is a closed pipe */
};

static int ends_with(const char *path, const char *ending)
{
    const size_t len = strlen(path), ending_len = strlen(ending);

    return len > ending_len && strcmp(path + len - ending_len, ending) == 0;
}

flatclip_status fc_output_check_name(const char *path, flatclip_error *err)
{
    if (ends_with(path, ".npy") || ends_with(path, ".jsonl"))
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_ARGUMENT,
                   "-o is \"%.200s\", expected a name ending in .npy or .jsonl", path);
}

static flatclip_status open_matrix(fc_output *output, const char *path, flatclip_error *err)
{
    static const unsigned char room[FC_NPY_HEADER];
    const size_t stem = strlen(path) - strlen(".npy");
    char *lines = malloc(stem + sizeof ".jsonl");

    if (!lines)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "%s: no memory to write it", path);
    memcpy(lines, path, stem);
    strcpy(lines + stem, ".jsonl");
    flatclip_status status = fc_output_file_open(&output->matrix, path, err);
    if (status == FLATCLIP_OK)
        status = fc_output_file_open(&output->lines, lines, err);
    free(lines);
    if (status != FLATCLIP_OK)
        return status;
    fwrite(room, 1, sizeof room, output->matrix.stream);
    return fc_output_file_check(&output->matrix, err);
}

static flatclip_status open_files(fc_output *output, const char *path, flatclip_error *err)
{
    output->text = stdout;
    if (!path)
        return FLATCLIP_OK;
    FC_TRY(fc_output_check_name(path, err));
    if (ends_with(path, ".npy"))
        FC_TRY(open_matrix(output, path, err));
    else
        FC_TRY(fc_output_file_open(&output->lines, path, err));
    output->text = output->lines.stream;
    return FLATCLIP_OK;
}

flatclip_status fc_output_open(const char *path, int columns, fc_output **output,
                               flatclip_error *err)
{
    fc_output *made = calloc(1, sizeof *made);

    *output = NULL;
    if (!made)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory for an output");
    made->columns = columns;
    const flatclip_status status = open_files(made, path, err);
    if (status != FLATCLIP_OK) {
        fc_output_free(made);
        return status;
    }
    *output = made;
    return FLATCLIP_OK;
}

flatclip_status fc_output_reserve(fc_output *output, size_t rows, flatclip_error *err)
{
    const uint64_t row_bytes = (uint64_t)output->columns * sizeof(float);

    if (!output->matrix.stream || rows == 0 || rows > INT64_MAX / row_bytes - FC_NPY_HEADER)
        return FLATCLIP_OK;
    return fc_output_file_reserve(&output->matrix, FC_NPY_HEADER + rows * row_bytes, err);
}

static flatclip_status check_lines(fc_output *output, flatclip_error *err)
{
    const int reason = errno;

    if (output->text != stdout)
        return fc_output_file_check(&output->lines, err);
    if (!ferror(stdout))
        return FLATCLIP_OK;
    output->reader_left = reason == EPIPE;
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write standard output: %s", strerror(reason));
}

/* Nine digits are enough to read back the same float32. */
static void write_vector(FILE *text, const float *embedding, int columns)
{
    fputs(", \"embedding\": [", text);
    for (int i = 0; i < columns; i++)
        fprintf(text, "%s%.9g", i ? ", " : "", (double)embedding[i]);
    putc(']', text);
}

flatclip_status fc_output_row(fc_output *output, const char *path, const float *embedding,
                              flatclip_error *err)
{
    fputs("{\"path\": ", output->text);
    fc_json_text(output->text, path);
    fprintf(output->text, ", \"row\": %zu", output->rows);
    if (!output->matrix.stream)
        write_vector(output->text, embedding, output->columns);
    fputs("}\n", output->text);
    FC_TRY(check_lines(output, err));
    output->rows++;
    if (!output->matrix.stream)
        return FLATCLIP_OK;
    fwrite(embedding, sizeof *embedding, (size_t)output->columns, output->matrix.stream);
    return fc_output_file_check(&output->matrix, err);
}

flatclip_status fc_output_failure(fc_output *output, const char *path, const char *reason,
                                  flatclip_error *err)
{
    fputs("{\"path\": ", output->text);
    fc_json_text(output->text, path);
    fputs(", \"error\": ", output->text);
    fc_json_text(output->text, reason);
    fputs("}\n", output->text);
    return check_lines(output, err);
}

size_t fc_output_rows(const fc_output *output)
{
    return output->rows;
}

static flatclip_status finish_all(fc_output *output, flatclip_error *err)
{
    unsigned char header[FC_NPY_HEADER];

    if (output->matrix.stream) {
        fc_npy_header(header, output->rows, (size_t)output->columns);
        FC_TRY(fc_output_file_finish(&output->matrix, header, sizeof header, err));
    }
    if (output->lines.stream)
        return fc_output_file_finish(&output->lines, NULL, 0, err);
    fflush(stdout);
    return check_lines(output, err);
}

/* The matrix last: who sees it can rely on the lines. */
static flatclip_status publish_all(fc_output *output, flatclip_error *err)
{
    if (output->lines.stream)
        FC_TRY(fc_output_file_publish(&output->lines, err));
    if (output->matrix.stream)
        FC_TRY(fc_output_file_publish(&output->matrix, err));
    return FLATCLIP_OK;
}

flatclip_status fc_output_publish(fc_output *output, flatclip_error *err)
{
    flatclip_status status = finish_all(output, err);

    if (status == FLATCLIP_OK) {
        fc_output_file_hold_signals();
        status = publish_all(output, err);
        fc_output_file_let_signals();
    }
    return status;
}

int fc_output_reader_left(const fc_output *output)
{
    return output->reader_left;
}

void fc_output_free(fc_output *output)
{
    if (!output)
        return;
    fc_output_file_discard(&output->lines);
    fc_output_file_discard(&output->matrix);
    free(output);
}
