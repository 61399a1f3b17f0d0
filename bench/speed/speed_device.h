/* What a GPU and NVIDIA's own libraries do, beside flatclip in the same run. In a build without
 * CUDA everything here is unavailable. */
#ifndef SPEED_DEVICE_H
#define SPEED_DEVICE_H

#include "bench/speed/speed_ceiling.h"
#include "bench/speed/speed_work.h"

/* The GPU's ceiling: cuBLASLt's square product in this precision (device_ceiling.h), and a copy.
 * What cannot be measured is NAN, and the reason in why. */
void speed_device_ceiling(flatclip_precision precision, speed_ceiling *ceiling);

/* Seconds that cuDNN takes for a stage of the forward pass on batch images in fp16, of all blocks:
 * the patch convolution or attention. NAN, with the error, if it cannot be measured. */
double speed_device_cudnn(const flatclip_model_info *info, speed_stage stage, int batch,
                          flatclip_error *err);

#endif
