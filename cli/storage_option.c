/* Words for the types that model files store weights in. */
#include "cli/storage_option.h"

#include "engine/base/error.h"

flatclip_status fc_storage_option(const fc_option *option, const char *value, fc_dtype *dtype,
                                  flatclip_error *err)
{
    static const fc_word words[] = { { "f32", FC_F32 }, { "f16", FC_F16 }, { "bf16", FC_BF16 } };
    int found;

    FC_TRY(fc_option_word(option, value, words, sizeof words / sizeof words[0], &found, err));
    *dtype = (fc_dtype)found;
    return FLATCLIP_OK;
}
