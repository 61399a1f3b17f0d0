/* The public encode calls: check arguments, delegate to the pipeline. */
#include "engine/encode.h"

FLATCLIP_API int flatclip_version(void)
{
    return FLATCLIP_VERSION;
}

static flatclip_status encode(const char *call, flatclip_session *session, fc_input_kind kind,
                              const void *list, size_t count, fc_results *results,
                              flatclip_error *err)
{
    fc_succeed(err);
    const char *missing = !session ? "session"
                          : count && !list ? "input list"
                          : count && !results->embeddings && !results->on_result ? "output"
                                                                                 : NULL;
    if (missing)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "%s: the %s is NULL", call, missing);
    const fc_inputs inputs = { kind, list, count };
    return fc_encode(session, &inputs, results, err);
}

FLATCLIP_API flatclip_status flatclip_encode_files(flatclip_session *session,
                                                   const char *const *paths, size_t count,
                                                   float *embeddings, flatclip_error *items,
                                                   flatclip_error *err)
{
    fc_results results = { .embeddings = embeddings, .items = items };
    return encode("flatclip_encode_files", session, FC_INPUT_FILES, paths, count, &results, err);
}

FLATCLIP_API flatclip_status flatclip_encode_bytes(flatclip_session *session,
                                                   const flatclip_bytes *files, size_t count,
                                                   float *embeddings, flatclip_error *items,
                                                   flatclip_error *err)
{
    fc_results results = { .embeddings = embeddings, .items = items };
    return encode("flatclip_encode_bytes", session, FC_INPUT_BYTES, files, count, &results, err);
}

FLATCLIP_API flatclip_status flatclip_encode_images(flatclip_session *session,
                                                    const flatclip_image *images, size_t count,
                                                    float *embeddings, flatclip_error *items,
                                                    flatclip_error *err)
{
    fc_results results = { .embeddings = embeddings, .items = items };
    return encode("flatclip_encode_images", session, FC_INPUT_IMAGES, images, count, &results, err);
}

FLATCLIP_API flatclip_status flatclip_encode_pixels_u8(flatclip_session *session,
                                                       const uint8_t *pixels, size_t count,
                                                       float *embeddings, flatclip_error *items,
                                                       flatclip_error *err)
{
    fc_results results = { .embeddings = embeddings, .items = items };
    return encode("flatclip_encode_pixels_u8", session, FC_INPUT_U8, pixels, count, &results, err);
}

FLATCLIP_API flatclip_status flatclip_encode_pixels_f32(flatclip_session *session,
                                                        const float *pixels, size_t count,
                                                        float *embeddings, flatclip_error *items,
                                                        flatclip_error *err)
{
    fc_results results = { .embeddings = embeddings, .items = items };
    return encode("flatclip_encode_pixels_f32", session, FC_INPUT_F32, pixels, count, &results,
                  err);
}

FLATCLIP_API flatclip_status flatclip_encode_files_each(flatclip_session *session,
                                                        const char *const *paths, size_t count,
                                                        flatclip_result_fn *on_result, void *user,
                                                        flatclip_error *err)
{
    fc_results results = { .on_result = on_result, .user = user };
    return encode("flatclip_encode_files_each", session, FC_INPUT_FILES, paths, count, &results,
                  err);
}
