/* --dtype of the commands that write model files. */
#ifndef FC_STORAGE_OPTION_H
#define FC_STORAGE_OPTION_H

#include "cli/command_line.h"
#include "engine/base/safetensors.h"

#define FC_EXPECTS_STORAGE "f32, f16 or bf16"

/* Reads value into *dtype: FC_F32, FC_F16 or FC_BF16. Errors: ARGUMENT. */
flatclip_status fc_storage_option(const fc_option *option, const char *value, fc_dtype *dtype,
                                  flatclip_error *err);

#endif
