/* Options that say how the engine is to work, shared by the commands that use it. */
#ifndef FC_ENGINE_OPTIONS_H
#define FC_ENGINE_OPTIONS_H

#include "cli/command_line.h"

#define FC_EXPECTS_DEVICE "auto, cpu, cuda or cuda:N"
#define FC_EXPECTS_PRECISION "auto, f32, bf16, f16 or int8"
#define FC_EXPECTS_BATCH "a number of images, 1 to 1024"
#define FC_EXPECTS_THREADS "a number of threads, 1 to 256"

/* Each reads value into options. Errors: ARGUMENT (names the option and what it expects). */
flatclip_status fc_engine_option_device(const fc_option *option, const char *value,
                                        flatclip_model_options *options, flatclip_error *err);
flatclip_status fc_engine_option_precision(const fc_option *option, const char *value,
                                           flatclip_model_options *options, flatclip_error *err);
flatclip_status fc_engine_option_batch(const fc_option *option, const char *value,
                                       flatclip_session_options *options, flatclip_error *err);
flatclip_status fc_engine_option_threads(const fc_option *option, const char *value,
                                         flatclip_session_options *options, flatclip_error *err);

/* The word of the command line for a precision: "f32". */
const char *fc_precision_word(flatclip_precision precision);

#endif
