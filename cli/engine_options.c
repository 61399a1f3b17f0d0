/* Words and numbers for the engine's options; see engine_options.h. */
#include "cli/engine_options.h"

#include <string.h>

#include "engine/base/error.h"

enum { DEVICE_INDEX_MAX = 1023 };

static const fc_word precision_words[] = { { "auto", FLATCLIP_PRECISION_AUTO },
                                           { "f32", FLATCLIP_PRECISION_F32 },
                                           { "bf16", FLATCLIP_PRECISION_BF16 },
                                           { "f16", FLATCLIP_PRECISION_F16 },
                                           { "int8", FLATCLIP_PRECISION_INT8 } };

flatclip_status fc_engine_option_device(const fc_option *option, const char *value,
                                        flatclip_model_options *options, flatclip_error *err)
{
    static const fc_word words[] = { { "auto", FLATCLIP_DEVICE_AUTO },
                                     { "cpu", FLATCLIP_DEVICE_CPU },
                                     { "cuda", FLATCLIP_DEVICE_CUDA } };
    int device;
    uint64_t index = 0;

    if (strncmp(value, "cuda:", 5) == 0) {
        FC_TRY(fc_option_number(option, value + 5, 0, DEVICE_INDEX_MAX, &index, err));
        value = "cuda";
    }
    FC_TRY(fc_option_word(option, value, words, sizeof words / sizeof words[0], &device, err));
    options->device = (flatclip_device)device;
    options->device_index = (int)index;
    return FLATCLIP_OK;
}

flatclip_status fc_engine_option_precision(const fc_option *option, const char *value,
                                           flatclip_model_options *options, flatclip_error *err)
{
    int precision;

    FC_TRY(fc_option_word(option, value, precision_words,
                          sizeof precision_words / sizeof precision_words[0], &precision, err));
    options->precision = (flatclip_precision)precision;
    return FLATCLIP_OK;
}

flatclip_status fc_engine_option_batch(const fc_option *option, const char *value,
                                       flatclip_session_options *options, flatclip_error *err)
{
    uint64_t batch;

    FC_TRY(fc_option_number(option, value, 1, FLATCLIP_MAX_BATCH, &batch, err));
    options->max_batch = (int)batch;
    return FLATCLIP_OK;
}

flatclip_status fc_engine_option_threads(const fc_option *option, const char *value,
                                         flatclip_session_options *options, flatclip_error *err)
{
    uint64_t threads;

    FC_TRY(fc_option_number(option, value, 1, FLATCLIP_MAX_THREADS, &threads, err));
    options->threads = (int)threads;
    return FLATCLIP_OK;
}

const char *fc_precision_word(flatclip_precision precision)
{
    for (size_t i = 0; i < sizeof precision_words / sizeof precision_words[0]; i++) {
        if (precision_words[i].value == (int)precision)
            return precision_words[i].word;
    }
    return "unknown";
}
