/* CLIP's vocabulary as its list of merges, the one thing that a tokenizer needs to know.
 *
 * The vocabulary is 256 bytes, the same 256 at the end of a word, 48,894 merges in the order of
 * their rank, and the start and end of text: 49,408 entries. A model file carries the merges as
 * text, one a line, "i n\n": two parts with one space between them, in the spelling of OpenAI's
 * bpe_simple_vocab_16e6.txt. Whatever file they come from, the text is the same bytes. */
#ifndef FC_MERGES_H
#define FC_MERGES_H

#include "engine/base/clip_config.h"

enum { FC_CLIP_MERGES = 48894 };

typedef struct {
    char *text;             /* [bytes], the caller's to end with fc_merges_free */
    size_t bytes;
    char origin[160];       /* for people: "tokenizer.json", "built in" */
} fc_merges;

/* The merges of OpenAI's CLIP, which this program carries. Errors: MEMORY. */
flatclip_status fc_merges_builtin(fc_merges *merges, flatclip_error *err);

/* The merges that lie in the folder of the checkpoint at path (of the file itself, not the folder),
 * as tokenizer.json, merges.txt (with vocab.json, whose ids must agree, if there is one) or
 * bpe_simple_vocab_16e6.txt.gz; else the built-in ones.
 * Errors: FORMAT (names the file, and what is wrong: damaged, another kind of tokenizer, another
 * number of merges), IO, MEMORY. */
flatclip_status fc_merges_beside(const char *path, fc_merges *merges, flatclip_error *err);

/* Checks text as a model file holds it: FC_CLIP_MERGES lines of two parts, UTF-8, no other space
 * or control. name stands in messages. Errors: FORMAT (says which line). */
flatclip_status fc_merges_check(const char *name, const char *text, size_t bytes,
                                flatclip_error *err);

void fc_merges_free(fc_merges *merges);

#endif
