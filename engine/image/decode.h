/* What the decoders of JPEG and PNG have in common. Each reads a whole picture from a source, hands
 * its rows to the resizer, and gives back whatever it allocated, also when it fails halfway. */
#ifndef FC_DECODE_H
#define FC_DECODE_H

#include "engine/image/preprocess.h"
#include "engine/image/source.h"

typedef struct {
    const fc_preprocess_options *options;
    fc_preprocess_scratch *scratch;
    fc_source *source;
    uint8_t *out; /* [size, size, 3] */
    flatclip_error *err;
} fc_decode_job;

/* Errors: IO, IMAGE_UNSUPPORTED, _TRUNCATED, _CORRUPT, _TOO_LARGE (before memory for pixels is
 * taken), MEMORY. */
flatclip_status fc_decode_jpeg(const fc_decode_job *job);
flatclip_status fc_decode_png(const fc_decode_job *job);

#endif
