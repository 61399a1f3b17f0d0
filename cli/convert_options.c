/* Words for the types of storage and the activations of models. */
#include "cli/convert_options.h"

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

flatclip_status fc_activation_option(const fc_option *option, const char *value,
                                     flatclip_activation *activation, flatclip_error *err)
{
    static const fc_word words[] = { { "quickgelu", FLATCLIP_ACTIVATION_QUICKGELU },
                                     { "gelu", FLATCLIP_ACTIVATION_GELU } };
    int found;

    FC_TRY(fc_option_word(option, value, words, sizeof words / sizeof words[0], &found, err));
    *activation = (flatclip_activation)found;
    return FLATCLIP_OK;
}
