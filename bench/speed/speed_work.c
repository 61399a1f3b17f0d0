/* Counts multiplications and additions. */
#include "bench/speed/speed_work.h"

const char *speed_stage_name(speed_stage stage)
{
    static const char *const names[SPEED_STAGES] = {
        "patch embed", "LayerNorm", "QKV", "attention", "out projection", "MLP", "head", "rest",
    };
    return names[stage];
}

double speed_stage_flop(const flatclip_model_info *info, speed_stage stage, int batch)
{
    const double images = batch, seq = info->tokens, width = info->width;
    const double rows = images * seq;            /* of every block but the last */
    const double full = info->layers - 1, square = 2 * width * width;
    switch (stage) {
    case SPEED_PATCH_EMBED:
        return 2 * images * (seq - 1) * 3 * info->patch_size * info->patch_size * width;
    case SPEED_QKV: return square * (full * 3 * rows + 2 * rows + images);
    case SPEED_ATTENTION: return 4 * width * seq * (full * rows + images);
    case SPEED_OUT_PROJECTION: return square * (full * rows + images);
    case SPEED_MLP: return 8 * square * (full * rows + images);
    case SPEED_HEAD: return 2 * images * width * info->embed_dim;
    case SPEED_LAYERNORM:
    case SPEED_REST:
    case SPEED_STAGES: break;
    }
    return 0;
}

double speed_forward_flop(const flatclip_model_info *info, int batch)
{
    double sum = 0;
    for (int stage = 0; stage < SPEED_STAGES; stage++)
        sum += speed_stage_flop(info, (speed_stage)stage, batch);
    return sum;
}
