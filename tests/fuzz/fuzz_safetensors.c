/* Fuzz target: any header of a .safetensors file, and the model that it claims to be.
 *
 * The input is 8 bytes, the size of the data that follows the header (little-endian, so that
 * headers with any layout can be complete), and the header. Whatever is accepted must keep the
 * promises that readers rely on; a broken one traps. */
#include <stdint.h>
#include <string.h>

#include "engine/base/clip_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds)
{
    if (!holds)
        __builtin_trap();
}

/* Tensors lie end to end from the header to the end of the file, and are found by name. */
static void check_promises(const fc_safetensors *file, uint64_t data_start, uint64_t file_bytes)
{
    uint64_t at = data_start;
    for (size_t i = 0; i < fc_safetensors_count(file); i++) {
        const fc_tensor *tensor = fc_safetensors_at(file, i);
        uint64_t count = 1;
        for (int d = 0; d < tensor->rank; d++)
            count *= tensor->dim[d];
        demand(tensor->rank <= FC_MAX_RANK && tensor->count == count);
        demand(tensor->bytes == count * fc_dtype_bytes(tensor->dtype));
        demand(tensor->offset == at && tensor->bytes <= file_bytes - at);
        demand(fc_safetensors_find(file, tensor->name) == tensor);
        at += tensor->bytes;
    }
    demand(at == file_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t data_bytes;
    fc_safetensors *file;
    fc_clip_config config;
    flatclip_error err;
    if (size < sizeof data_bytes)
        return 0;
    memcpy(&data_bytes, data, sizeof data_bytes);
    const size_t header_bytes = size - sizeof data_bytes;
    const uint64_t data_start = 8 + header_bytes;
    const uint64_t file_bytes = data_bytes > UINT64_MAX - data_start ? UINT64_MAX
                                                                     : data_start + data_bytes;
    if (fc_safetensors_parse("fuzz", (const char *)data + sizeof data_bytes, header_bytes,
                             file_bytes, &file, &err) != FLATCLIP_OK) {
        demand(file == NULL && err.message[0]);
        demand(err.status == FLATCLIP_ERR_FORMAT); /* cJSON parses whatever passes our check */
        return 0;
    }
    check_promises(file, data_start, file_bytes);
    if (fc_clip_config_read(file, &config, &err) == FLATCLIP_OK) {
        demand(fc_clip_config_check(&config, "fuzz", NULL) == FLATCLIP_OK);
        if (fc_clip_check_tensors(file, &config, &err) == FLATCLIP_OK)
            demand(fc_safetensors_count(file) - (size_t)fc_clip_tensor_count(&config) ==
                   (fc_safetensors_find(file, FC_MERGES_TENSOR) != NULL));
    }
    fc_safetensors_close(file);
    return 0;
}
