"""Writes the checkpoints of this folder that are ours (the others are listed in ../LICENSES).

    python make_views.py        (needs torch and safetensors; tried with torch 2.15)

All hold the weights of open_clip_model.safetensors, whose values are exact in float16:

    views.pt      a training checkpoint in which no tensor is plain: transposed matrices, slices of
                  one storage for all biases, channels-last convolution, a view with an offset,
                  Parameters, float64 and float16 mixed; the optimizer's state beside them
    deflated.pt   float16, with every member of the archive deflated, as a zip tool packs it
    bf16.pt       rounded to bfloat16; pickle protocol 4
"""
import collections
import io
import os
import zipfile

import torch
from safetensors.torch import load_file

here = os.path.dirname(os.path.abspath(__file__))
weights = load_file(os.path.join(here, "open_clip_model.safetensors"))


def strange_views(weights):
    flat = torch.cat([v.half().reshape(-1) for k, v in weights.items() if v.dim() == 1])
    views, at = collections.OrderedDict(), 0
    for name, value in weights.items():
        if value.dim() == 1:
            views[name] = flat[at:at + len(value)]
            at += len(value)
        elif value.dim() == 4:
            views[name] = value.half().contiguous(memory_format=torch.channels_last)
        elif name == "token_embedding.weight":
            wide = torch.zeros(value.shape[0], value.shape[1] + 3, dtype=torch.float16)
            wide[:, 2:-1] = value
            views[name] = wide[:, 2:-1]
        elif name == "visual.proj":
            views[name] = torch.nn.Parameter(value.double())
        elif value.dim() == 2:
            views[name] = torch.nn.Parameter(value.half().T.contiguous().T)
        else:
            views[name] = value.half()
    return views


module = torch.nn.Linear(3, 2)
optimizer = torch.optim.Adam(module.parameters())
module(torch.ones(1, 3)).sum().backward()
optimizer.step()
torch.save({"epoch": 7, "state_dict": strange_views(weights), "optimizer": optimizer.state_dict(),
            "loss": [0.5, 0.25], "note": "spikes \u2603"}, os.path.join(here, "views.pt"))

packed = io.BytesIO()
torch.save({k: v.half() for k, v in weights.items()}, packed)
with zipfile.ZipFile(packed) as source, \
        zipfile.ZipFile(os.path.join(here, "deflated.pt"), "w", zipfile.ZIP_DEFLATED) as target:
    for member in source.infolist():
        target.writestr(member.filename, source.read(member))

torch.save({k: v.bfloat16() for k, v in weights.items()}, os.path.join(here, "bf16.pt"),
           pickle_protocol=4)
