/* Options that several of the commands have which write model files. */
#ifndef FC_CONVERT_OPTIONS_H
#define FC_CONVERT_OPTIONS_H

#include "cli/command_line.h"
#include "engine/base/safetensors.h"

#define FC_EXPECTS_STORAGE "f32, f16 or bf16"
#define FC_EXPECTS_ACTIVATION "quickgelu or gelu"

/* --dtype: reads value into *dtype, FC_F32, FC_F16 or FC_BF16. Errors: ARGUMENT. */
flatclip_status fc_storage_option(const fc_option *option, const char *value, fc_dtype *dtype,
                                  flatclip_error *err);

/* --activation. Errors: ARGUMENT. */
flatclip_status fc_activation_option(const fc_option *option, const char *value,
                                     flatclip_activation *activation, flatclip_error *err);

#endif
