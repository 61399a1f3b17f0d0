/* Building the header of a .safetensors file in a test, as a tree that it can spoil. */
#ifndef FC_TEST_HEADER_ENTRY_H
#define FC_TEST_HEADER_ENTRY_H

#include <cjson/cJSON.h>
#include <stdint.h>

/* Adds the entry of a tensor to header and returns where its data ends, which begins at begin. */
static inline uint64_t add_header_entry(cJSON *header, const char *name, const char *dtype,
                                        const uint64_t *dim, int rank, uint64_t begin,
                                        uint64_t bytes)
{
    cJSON *entry = cJSON_AddObjectToObject(header, name);
    cJSON_AddStringToObject(entry, "dtype", dtype);
    cJSON *shape = cJSON_AddArrayToObject(entry, "shape");
    for (int d = 0; d < rank; d++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)dim[d]));
    cJSON *offsets = cJSON_AddArrayToObject(entry, "data_offsets");
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)begin));
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)(begin + bytes)));
    return begin + bytes;
}

#endif
