#!/usr/bin/env python3
"""Converting one full-size checkpoint: flatclip beside PyTorch and safetensors, in turns.

The checkpoint is a TorchScript archive of fp16 weights like OpenAI's ViT-B-32.pt: --checkpoint
FILE, or one that is made here from a model file (-m). PyTorch's side is what a user writes:
torch.load (or torch.jit.load and state_dict, for a TorchScript archive) and safetensors' save_file.
Every run is a process of its own, with warm file caches; two times are given, that of the process
and that of the two calls alone. Run by `make bench-convert`; prints a table.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLATCLIP = os.path.join(ROOT, "build/flatclip")

PYTORCH = """
import sys, time
import torch
from safetensors.torch import save_file
started = time.perf_counter()
state = torch.jit.load(sys.argv[1], map_location="cpu").state_dict()
save_file({k: v.contiguous() for k, v in state.items()}, sys.argv[2])
print("calls", time.perf_counter() - started)
"""


def make_checkpoint(model, path):
    """A TorchScript archive with OpenAI's names: nested modules, fp16 parameters."""
    import torch
    from safetensors.torch import load_file

    class Node(torch.nn.Module):
        def forward(self, x):
            return x * torch.sigmoid(1.702 * x)

    root = Node()
    for name, value in load_file(model).items():
        if not value.is_floating_point():
            continue
        node = root
        *folders, leaf = name.split(".")
        for folder in folders:
            if folder not in node._modules:
                node.add_module(folder, Node())
            node = node._modules[folder]
        node.register_parameter(leaf, torch.nn.Parameter(value.half(), requires_grad=False))
    torch.jit.trace(root, torch.zeros(1), check_trace=False).save(path)


def run(command, scratch):
    """Seconds, peak MiB and standard output of one process. A process inherits the peak of the one
    that forks it, so that GNU time, which is small, must stand between (NaN where it is missing)."""
    peak = os.path.join(scratch, "peak")
    between = ["/usr/bin/time", "-f", "%M", "-o", peak] if os.path.exists("/usr/bin/time") else []
    started = time.perf_counter()
    done = subprocess.run(between + command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"failed: {' '.join(command[:3])}")
    return seconds, int(open(peak).read()) / 1024 if between else float("nan"), done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", help="model file to make the checkpoint from")
    parser.add_argument("--checkpoint", help="an OpenAI-style TorchScript archive")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = args.checkpoint
        if not checkpoint:
            checkpoint = os.path.join(folder, "jit.pt")
            make_checkpoint(args.model, checkpoint)
        out = os.path.join(folder, "out.safetensors")
        rows = {"flatclip convert": [], "flatclip convert --dtype f32": [], "PyTorch": []}
        commands = {
            "flatclip convert": [FLATCLIP, "convert", checkpoint, "-o", out],
            "flatclip convert --dtype f32": [FLATCLIP, "convert", checkpoint, "-o", out, "--dtype", "f32"],
            "PyTorch": [sys.executable, "-c", PYTORCH, checkpoint, out],
        }
        for _ in range(args.repeats):
            for name, command in commands.items():
                seconds, peak, text = run(command, folder)
                calls = re.search(r"^calls (\S+)", text, re.M)
                rows[name].append((seconds, float(calls.group(1)) if calls else seconds, peak))
        print(f"{os.path.getsize(checkpoint) / 1e6:.0f} MB, {args.repeats} rounds in turns, medians")
        print("| | process, s | calls alone, s | peak memory, MiB |\n|---|--:|--:|--:|")
        for name, found in rows.items():
            seconds, calls, peak = (statistics.median(column) for column in zip(*found))
            print(f"| {name} | {seconds:.2f} | {calls:.2f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
