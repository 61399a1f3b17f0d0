/* Looking for QuickGELU in a TorchScript archive. Its code is read as text and never run. */
#include "weights_tools/torch_code.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights_tools/pickle.h"

enum {
    CODE_LIMIT = 16 << 20,          /* bytes in all; CLIP has some 100,000 */
    CONSTANTS_LIMIT = 1 << 20       /* bytes of constants.pkl */
};

static int ends_with(const char *text, const char *tail)
{
    const size_t length = strlen(text), tail_length = strlen(tail);
    return length >= tail_length && !strcmp(text + length - tail_length, tail);
}

/* Whether name is FOLDER/first... */
static int lies_in(const char *name, const char *folder, const char *first)
{
    const size_t length = strlen(folder);
    return !strncmp(name, folder, length) && !strncmp(name + length, first, strlen(first));
}

/* -- Code ------------------------------------------------------------------------------------ */

typedef struct {
    int sigmoid, factor;
} found_words;

static flatclip_status look_into_code(const fc_torch_file *file, const char *path,
                                      found_words *found, flatclip_error *err)
{
    const fc_zip *zip = fc_torch_file_zip(file);
    uint64_t total = 0;
    for (size_t i = 0; i < fc_zip_count(zip); i++) {
        const fc_zip_member *member = fc_zip_at(zip, i);
        unsigned char *text;
        if (!lies_in(member->name, fc_torch_file_folder(file), "code/") ||
            !ends_with(member->name, ".py"))
            continue;
        total += member->bytes < CODE_LIMIT ? member->bytes : CODE_LIMIT;
        if (total >= CODE_LIMIT)
            return fc_fail(err, FLATCLIP_ERR_FORMAT,
                           "%.150s holds over %d MB of code: it is no CLIP model", path,
                           CODE_LIMIT >> 20);
        FC_TRY(fc_zip_read_whole(zip, member, CODE_LIMIT, &text, err));
        found->sigmoid |= strstr((const char *)text, "sigmoid(") != NULL;
        found->factor |= strstr((const char *)text, "1.702") != NULL;
        free(text);
    }
    return FLATCLIP_OK;
}

/* -- Constants ------------------------------------------------------------------------------- */

/* Whether a constant is the number 1.702 in any precision. */
static flatclip_status is_factor(const fc_torch_file *file, const fc_pickle_value *constant,
                                 int *factor, flatclip_error *err)
{
    _Alignas(8) unsigned char bytes[8];
    float value;
    if (constant->kind != FC_PICKLE_TENSOR || constant->rank || constant->storage->dtype > FC_F64)
        return FLATCLIP_OK;
    const fc_zip_member *member = fc_torch_file_member(file, "constants/",
                                                       constant->storage->text);
    const size_t width = fc_dtype_bytes(constant->storage->dtype);
    if (!member || member->deflated || member->bytes < width ||
        constant->offset > member->bytes / width - 1)
        return FLATCLIP_OK;
    FC_TRY(fc_zip_read(fc_torch_file_zip(file), member, constant->offset * width, width, bytes,
                       err));
    fc_dtype_to_floats(constant->storage->dtype, bytes, 1, &value);
    *factor |= fabsf(value - 1.702f) < 0.004f; /* bf16's nearest neighbour is 1.703125 */
    return FLATCLIP_OK;
}

static flatclip_status look_into_constants(const fc_torch_file *file, const char *path,
                                           int *factor, flatclip_error *err)
{
    const fc_zip_member *member = fc_torch_file_member(file, "constants.pkl", "");
    unsigned char *data;
    fc_pickle *pickle;
    size_t used;
    if (!member)
        return FLATCLIP_OK;
    FC_TRY(fc_zip_read_whole(fc_torch_file_zip(file), member, CONSTANTS_LIMIT, &data, err));
    flatclip_status status = fc_pickle_read(path, data, (size_t)member->bytes, &pickle, &used,
                                            err);
    free(data);
    if (status != FLATCLIP_OK) /* constants of kinds that no weights need are no evidence, either */
        return status == FLATCLIP_ERR_FORMAT ? FLATCLIP_OK : status;
    const fc_pickle_value *root = fc_pickle_root(pickle);
    const int is_list = root->kind == FC_PICKLE_TUPLE || root->kind == FC_PICKLE_LIST;
    for (size_t i = 0; is_list && i < root->count && status == FLATCLIP_OK; i++)
        status = is_factor(file, root->item[i], factor, err);
    fc_pickle_close(pickle);
    return status;
}

flatclip_status fc_torch_code_quick_gelu(const fc_torch_file *file, const char *path,
                                         int *quick_gelu, flatclip_error *err)
{
    found_words found = { 0, 0 };
    *quick_gelu = 0;
    if (!fc_torch_file_zip(file))
        return FLATCLIP_OK;
    FC_TRY(look_into_code(file, path, &found, err));
    if (found.sigmoid && !found.factor)
        FC_TRY(look_into_constants(file, path, &found.factor, err));
    *quick_gelu = found.sigmoid && found.factor;
    return FLATCLIP_OK;
}
