"""Part "torch" of make gpu-check: a ViT-B/32 image tower in PyTorch, fp16, under inference_mode, as
a measure of ours. Random weights: speed does not depend on them.

    python3 bench/gpu/torch_speed.py FINDINGS    appends one JSON object a line
"""
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, PATCH, EMBED, TOKENS = 768, 12, 12, 32, 512, 50


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch = x.shape[0]
        q, k, v = (part.view(batch, TOKENS, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, TOKENS, WIDTH))
        hidden = self.fc1(self.ln_2(x))
        return x + self.fc2(hidden * torch.sigmoid(1.702 * hidden))


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.position = nn.Parameter(torch.randn(1, TOKENS, WIDTH))
        self.ln_pre, self.ln_post = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.proj = nn.Linear(WIDTH, EMBED, bias=False)

    def forward(self, pixels):
        x = self.patches(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], dim=1) + self.position
        x = self.blocks(self.ln_pre(x))
        return F.normalize(self.proj(self.ln_post(x[:, 0])), dim=-1)


def seconds_a_call(tower, batch):
    pixels = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16)
    for _ in range(3):
        tower(pixels)
    torch.cuda.synchronize()
    rounds = []
    for _ in range(5):
        calls, start = 0, time.perf_counter()
        while time.perf_counter() - start < 0.3:
            for _ in range(5):
                tower(pixels)
            torch.cuda.synchronize()
            calls += 5
        rounds.append((time.perf_counter() - start) / calls)
    return sorted(rounds)[2]


def main():
    if not torch.cuda.is_available():
        print("torch is here, but sees no GPU")
        return 1
    tower = Tower().half().cuda().eval()
    with torch.inference_mode(), open(sys.argv[1], "a", encoding="utf-8") as findings:
        for batch in (1, 8, 32, 112, 225):
            seconds = seconds_a_call(tower, batch)
            what = f"PyTorch {torch.__version__} f16, batch {batch}"
            words = f"{1e3 * seconds:.3f} ms a call, pixels on the device"
            print(f"{'torch':11} {what:34} {batch / seconds:12.5g} {'images/s':9} {'':8}{words}",
                  flush=True)
            findings.write(json.dumps({"part": "torch", "what": what, "value": batch / seconds,
                                       "unit": "images/s", "words": words,
                                       "verdict": "measured"}) + "\n")
    return 0


sys.exit(main())
