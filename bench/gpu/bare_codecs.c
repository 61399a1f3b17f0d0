/* Stands for the picture decoders where their libraries are missing: every picture is refused. */
#include "engine/image/decode.h"

static flatclip_status refuse(const fc_decode_job *job, const char *kind)
{
    return fc_fail(job->err, FLATCLIP_ERR_IMAGE_UNSUPPORTED, "this program is built without "
                   "picture decoders, and cannot read %s", kind);
}

flatclip_status fc_decode_jpeg(const fc_decode_job *job)
{
    return refuse(job, "JPEG");
}

flatclip_status fc_decode_png(const fc_decode_job *job)
{
    return refuse(job, "PNG");
}
