/* Fuzz target: any file as a checkpoint, through every reader behind weight_source.h: which kind it
 * is, the containers of torch with their storages, views, TorchScript's code.
 *
 * The file lies in memory, and is opened by the name that its descriptor has. Every tensor that is
 * found is read at its beginning, in its middle and at its end. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights_tools/weight_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_TENSORS = 64, VALUES = 16 };

static void demand(int holds)
{
    if (!holds)
        __builtin_trap();
}

static void read_some(const fc_weight_source *source, const fc_tensor *tensor, uint64_t first)
{
    float values[VALUES];
    flatclip_error err = { FLATCLIP_OK, "" };
    const uint64_t left = tensor->count - first;
    const uint64_t count = left < VALUES ? left : VALUES;
    if (source->read(source, tensor, first, count, values, &err) != FLATCLIP_OK)
        demand(err.message[0] != '\0');
}

static void check_promises(const fc_weight_source *source)
{
    for (size_t i = 0; i < source->count && i < MOST_TENSORS; i++) {
        const fc_tensor *tensor = source->at(source, i);
        demand(tensor->rank <= FC_MAX_RANK);
        demand(source->at(source, fc_weight_source_find(source, tensor->name)) == tensor);
        read_some(source, tensor, 0);
        read_some(source, tensor, tensor->count / 2);
        read_some(source, tensor, tensor->count - (tensor->count > 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    fc_weight_source *source;
    flatclip_error err = { FLATCLIP_OK, "" };
    const int file = memfd_create("checkpoint", MFD_CLOEXEC);
    demand(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (fc_weight_source_open(path, &source, &err) == FLATCLIP_OK) {
        check_promises(source);
        fc_weight_source_close(source);
    } else {
        demand(!source && err.message[0]);
    }
    close(file);
    return 0;
}
