/* Finding the merges that go with a checkpoint, and checking them. */
#include "weights_tools/merges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "weights_tools/clip_merges.h"
#include "weights_tools/merges_parts.h"
#include "weights_tools/small_file.h"

enum { FILE_LIMIT = 16 << 20 }; /* bytes; the largest of them, tokenizer.json, has 2 to 4 million */

/* -- Checking -------------------------------------------------------------------------------- */

/* Whether a line is two parts with one space between, in UTF-8, without controls. */
static int is_merge(const char *line, size_t bytes)
{
    size_t spaces = 0, space_at = 0;
    for (size_t i = 0, step; i < bytes; i += step) {
        step = fc_utf8_bytes(line + i, bytes - i);
        if (!step || (unsigned char)line[i] < ' ' || line[i] == 0x7f)
            return 0;
        if (line[i] == ' ') {
            spaces++;
            space_at = i;
        }
    }
    return spaces == 1 && space_at > 0 && space_at + 1 < bytes;
}

flatclip_status fc_merges_check(const char *name, const char *text, size_t bytes,
                                flatclip_error *err)
{
    size_t at = 0;
    for (int line = 1; line <= FC_CLIP_MERGES; line++) {
        const char *newline = at < bytes ? memchr(text + at, '\n', bytes - at) : NULL;
        if (!newline)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.150s: the merges end in line %d, expected %d lines", name, line,
                           FC_CLIP_MERGES);
        const size_t length = (size_t)(newline - (text + at));
        if (!is_merge(text + at, length))
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.150s: line %d of the merges is not two parts with one space between",
                           name, line);
        at += length + 1;
    }
    if (at != bytes)
        return fc_fail(err, FLATCLIP_ERR_FORMAT,
                       "%.150s: %zu bytes follow after %d merges, expected none", name, bytes - at,
                       FC_CLIP_MERGES);
    return FLATCLIP_OK;
}

/* -- Finding --------------------------------------------------------------------------------- */

flatclip_status fc_merges_builtin(fc_merges *merges, flatclip_error *err)
{
    size_t bytes;
    const unsigned char *data = fc_clip_merges_gzip(&bytes);
    memset(merges, 0, sizeof *merges);
    FC_TRY(fc_merges_from_gzip("the built-in vocabulary", data, bytes, merges, err));
    snprintf(merges->origin, sizeof merges->origin, "built in, OpenAI's CLIP");
    return FLATCLIP_OK;
}

static flatclip_status from_tokenizer_json(const char *beside, fc_merges *merges,
                                           flatclip_error *err)
{
    fc_small_file file;
    flatclip_status status = fc_small_file_read(beside, "tokenizer.json", FILE_LIMIT, &file, err);
    if (status == FLATCLIP_OK && file.text)
        status = fc_merges_from_json(file.path, file.text, file.bytes, merges, err);
    fc_small_file_free(&file);
    return status;
}

static flatclip_status from_merges_txt(const char *beside, fc_merges *merges, flatclip_error *err)
{
    fc_small_file lines, vocabulary = { NULL, NULL, 0 };
    flatclip_status status = fc_small_file_read(beside, "merges.txt", FILE_LIMIT, &lines, err);
    if (status == FLATCLIP_OK && lines.text) {
        status = fc_merges_from_lines(lines.path, lines.text, lines.bytes, merges, err);
        if (status == FLATCLIP_OK)
            status = fc_small_file_read(beside, "vocab.json", FILE_LIMIT, &vocabulary, err);
        if (status == FLATCLIP_OK && vocabulary.text)
            status = fc_merges_check_vocabulary(vocabulary.path, vocabulary.text, vocabulary.bytes,
                                                merges, err);
    }
    fc_small_file_free(&vocabulary);
    fc_small_file_free(&lines);
    return status;
}

static flatclip_status from_bpe(const char *beside, fc_merges *merges, flatclip_error *err)
{
    fc_small_file file;
    flatclip_status status = fc_small_file_read(beside, "bpe_simple_vocab_16e6.txt.gz", FILE_LIMIT,
                                                &file, err);
    if (status == FLATCLIP_OK && file.text)
        status = fc_merges_from_gzip(file.path, (const unsigned char *)file.text, file.bytes,
                                     merges, err);
    fc_small_file_free(&file);
    return status;
}

flatclip_status fc_merges_beside(const char *path, fc_merges *merges, flatclip_error *err)
{
    static const struct {
        const char *name;
        flatclip_status (*read)(const char *beside, fc_merges *merges, flatclip_error *err);
    } kinds[] = {
        { "tokenizer.json", from_tokenizer_json },
        { "merges.txt", from_merges_txt },
        { "bpe_simple_vocab_16e6.txt.gz", from_bpe },
    };
    memset(merges, 0, sizeof *merges);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const flatclip_status status = kinds[i].read(path, merges, err);
        if (status != FLATCLIP_OK) {
            fc_merges_free(merges);
            return status;
        }
        if (merges->text) {
            snprintf(merges->origin, sizeof merges->origin, "%s", kinds[i].name);
            return FLATCLIP_OK;
        }
    }
    return fc_merges_builtin(merges, err);
}

void fc_merges_free(fc_merges *merges)
{
    free(merges->text);
    memset(merges, 0, sizeof *merges);
}
