/* What the code in a TorchScript archive tells about the model. */
#ifndef FC_TORCH_CODE_H
#define FC_TORCH_CODE_H

#include "weights_tools/torch_file.h"

/* Fills *quick_gelu: whether the code computes QuickGELU, x * sigmoid(1.702 x), which tracing
 * leaves as a sigmoid in the code and 1.702 either in it or among the archive's constants. It is 0
 * for a file without code. path stands in messages.
 * Errors: FORMAT for damaged members and for more code than any model has, IO, MEMORY. */
flatclip_status fc_torch_code_quick_gelu(const fc_torch_file *file, const char *path,
                                         int *quick_gelu, flatclip_error *err);

#endif
