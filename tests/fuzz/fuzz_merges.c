/* Fuzz target: the files that a vocabulary comes in.
 *
 * The first byte of the input chooses which kind the rest is. Real files have 48,894 merges, which
 * no fuzzer finds; what is reached is all that is looked at before they are counted, and ids
 * against merges, by the built-in ones. */
#include <stdint.h>
#include <stdlib.h>

#include "weights_tools/merges_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds)
{
    if (!holds)
        __builtin_trap();
}

/* The built-in merges, inflated once and kept until the process ends. */
static const fc_merges *builtin(void)
{
    static fc_merges merges;
    if (!merges.text)
        demand(fc_merges_builtin(&merges, NULL) == FLATCLIP_OK);
    return &merges;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fc_merges merges = { NULL, 0, "" };
    flatclip_error err = { FLATCLIP_OK, "" };
    flatclip_status status = FLATCLIP_OK;
    if (!size)
        return 0;
    const char *text = (const char *)data + 1;
    switch (data[0] % 4) {
    case 0: status = fc_merges_from_lines("fuzz", text, size - 1, &merges, &err); break;
    case 1: status = fc_merges_from_gzip("fuzz", data + 1, size - 1, &merges, &err); break;
    case 2: status = fc_merges_from_json("fuzz", text, size - 1, &merges, &err); break;
    default: status = fc_merges_check_vocabulary("fuzz", text, size - 1, builtin(), &err);
    }
    if (status != FLATCLIP_OK)
        demand(err.status == FLATCLIP_ERR_FORMAT && err.message[0]);
    else if (data[0] % 4 < 3)
        demand(fc_merges_check("fuzz", merges.text, merges.bytes, NULL) == FLATCLIP_OK);
    fc_merges_free(&merges);
    return 0;
}
