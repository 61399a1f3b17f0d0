/* Encoding through the public calls, on any device: ready pixels by batch, and files to embeddings.
 */
#ifndef SPEED_ENCODE_H
#define SPEED_ENCODE_H

#include "bench/speed/speed_ceiling.h"
#include "bench/speed/speed_report.h"

/* One model, on one device and in one precision, while its combinations are timed. */
typedef struct {
    const speed_options *options;
    speed_report *report;
    flatclip_model *model;
    flatclip_model_info info;
    const char *device, *precision; /* "cpu", "f32" */
    flatclip_session *session;      /* of the combination at hand */
    int threads, batch;
    speed_ceiling ceiling;          /* of as many threads, or of the GPU */
} speed_run;

/* Times run->session on batch ready pixels; one row. Errors: those of the encode call, MEMORY. */
flatclip_status speed_encode(speed_run *run, flatclip_error *err);

/* Times files to embeddings in turns with ready pixels; one row. Errors: as above, and the files'.
 */
flatclip_status speed_end_to_end(speed_run *run, flatclip_error *err);

/* Ready pixels [count, S, S, 3] of noise, the caller's to free; NULL without memory. */
uint8_t *speed_noise(const flatclip_model *model, int count);

/* Bytes of an embedding row of the model times count. */
size_t speed_row_bytes(const flatclip_model *model, size_t count);

#endif
