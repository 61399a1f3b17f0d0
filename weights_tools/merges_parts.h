/* The three kinds of file that CLIP's merges come in, each read from memory. All are untrusted.
 *
 * Each fills merges->text and bytes, in the canonical form of merges.h; name stands in messages.
 * Errors: FORMAT, MEMORY. */
#ifndef FC_MERGES_PARTS_H
#define FC_MERGES_PARTS_H

#include "weights_tools/merges.h"

/* merges.txt, or OpenAI's bpe_simple_vocab_16e6.txt, which has more merges than are in use: a line
 * of "#version", then one merge a line. */
flatclip_status fc_merges_from_lines(const char *name, const char *text, size_t bytes,
                                     fc_merges *merges, flatclip_error *err);

/* The same, compressed with gzip. */
flatclip_status fc_merges_from_gzip(const char *name, const unsigned char *data, size_t bytes,
                                    fc_merges *merges, flatclip_error *err);

/* tokenizer.json of Hugging Face: merges as texts or as pairs, and a vocabulary that agrees. */
flatclip_status fc_merges_from_json(const char *name, const char *text, size_t bytes,
                                    fc_merges *merges, flatclip_error *err);

/* vocab.json of Hugging Face: whether its ids are those that merges lead to. */
flatclip_status fc_merges_check_vocabulary(const char *name, const char *text, size_t bytes,
                                           const fc_merges *merges, flatclip_error *err);

#endif
