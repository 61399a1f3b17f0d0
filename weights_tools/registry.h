/* The public models that `flatclip fetch` knows, each with its address and checksum.
 *
 * Where every figure is from stands in registry.c and in docs/checkpoints.md. */
#ifndef FC_REGISTRY_H
#define FC_REGISTRY_H

#include <stddef.h>
#include <stdint.h>

#include "flatclip.h"

typedef struct {
    const char *name;       /* "openai/ViT-B-32" */
    const char *model;      /* the file that it becomes in the cache: "ViT-B-32.safetensors" */
    const char *url;        /* https, of the publisher */
    const char *sha256;     /* of the file at url, 64 lower-case hexadecimal digits */
    uint64_t bytes;         /* length of that file; 0 where no source tells it */
    flatclip_activation activation;
    const char *layout;     /* what the file is: "TorchScript archive" */
    const char *licence;    /* one line */
    const char *limits;     /* what its publisher says of its use, in our words: lines, each with
                             * its newline */
} fc_registry_entry;

/* Entry index of the table; NULL behind the last. The first is the default model. */
const fc_registry_entry *fc_registry_at(size_t index);

/* The entry of that name, or NULL. Case does not matter, "openai/" may be left out, and '/' and '@'
 * stand for '-', so that OpenAI's own spelling, "ViT-L/14@336px", is understood. */
const fc_registry_entry *fc_registry_find(const char *name);

/* The entry whose file has that sha256 (lower-case hexadecimal digits), or NULL. */
const fc_registry_entry *fc_registry_by_sha256(const char *hex);

#endif
