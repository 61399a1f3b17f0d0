#!/usr/bin/env python3
"""The loop that flatclip was written for: ten passes in PyTorch, as it was and with each remedy that
was proposed for it, and flatclip's, on the same image and weights. Bytes a pass, side by side.

The loop kept nothing: `features` is overwritten in every pass. What keeps the graph alive is the
in-place division. `norm` saves its input for the backward pass; `features /= norm` then makes that
same tensor the division's result; so the tensor holds the division, the division the norm, and the
norm the tensor. That is a ring of C++ references which Python's collector does not see. The graph
with all activations of the pass stays, every time.

Every variant runs in a process of its own. Run by `make growth-table`.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PHOTO = os.path.join(ROOT, "tests/data/images/good/cat_420.jpg")
PASSES = 10
PUBLISHED = (380_955_648, 574_358_016)


# The loops. Each gets the model and one preprocessed image [1, 3, 224, 224], and after_pass().
def as_it_was(model, image, after_pass):
    for _ in range(PASSES):
        features = model.encode_image(image)
        features /= features.norm(dim=-1, keepdim=True)
        after_pass()


def out_of_place(model, image, after_pass):
    for _ in range(PASSES):
        features = model.encode_image(image)
        features = features / features.norm(dim=-1, keepdim=True)
        after_pass()


def no_grad(model, image, after_pass):
    import torch

    with torch.no_grad():
        as_it_was(model, image, after_pass)


def inference_mode(model, image, after_pass):
    import torch

    with torch.inference_mode():
        as_it_was(model, image, after_pass)


def detach(model, image, after_pass):
    for _ in range(PASSES):
        features = model.encode_image(image).detach()
        features /= features.norm(dim=-1, keepdim=True)
        after_pass()


def batching(model, image, after_pass):
    """All ten images in one call, and nothing else changed: one graph, but of ten images."""
    features = model.encode_image(image.repeat(PASSES, 1, 1, 1))
    features /= features.norm(dim=-1, keepdim=True)
    after_pass()


VARIANTS = {  # name: (loop, what is shown)
    "as-it-was": (as_it_was, "as it was: features /= norm"),
    "out-of-place": (out_of_place, "out-of-place division"),
    "no-grad": (no_grad, "torch.no_grad()"),
    "inference-mode": (inference_mode, "torch.inference_mode()"),
    "detach": (detach, "detach() before the division"),
    "batching": (batching, "batching: one call of ten images"),
}


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class LiveStorage:
    """torch's own count on the CPU: bytes of storage allocated and not freed, by its profiler."""

    def __init__(self):
        import torch

        self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                              profile_memory=True)

    def __enter__(self):
        self.profile.__enter__()
        return self

    def __exit__(self, *problem):
        self.profile.__exit__(*problem)

    def held(self):
        """Bytes, after the end: the sum of all allocations (positive) and releases (negative)."""
        try:
            events = self.profile.profiler.kineto_results.events()
            return sum(e.nbytes() for e in events if e.name() == "[memory]")
        except AttributeError:  # another version of torch
            return None


def run_variant(name, weights):
    """One variant in this process; prints a JSON object."""
    import torch
    from PIL import Image

    sys.path.insert(0, os.path.join(ROOT, "bench/peers"))
    from peer_models import normalise, open_clip_model, read_config, recipe

    model = open_clip_model(weights)
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    model = model.to(device)
    image = torch.from_numpy(normalise([recipe(Image.open(PHOTO))], read_config(weights))).to(device)
    loop = VARIANTS[name][0]
    with torch.no_grad():
        for count in (1, PASSES if name == "batching" else 1):  # libraries and allocators settle
            model.encode_image(image.repeat(count, 1, 1, 1))

    def read():
        return torch.cuda.memory_allocated() if gpu else resident()

    before, after = read(), []
    loop(model, image, lambda: after.append(read()))
    held = None
    if not gpu:  # once more, counted: the profiler's own memory must not be in the numbers above
        with LiveStorage() as storage:
            loop(model, image, lambda: None)
        held = storage.held()
    print(json.dumps({"torch": torch.__version__, "counter": "cuda" if gpu else "resident",
                      "before": before, "after": after, "held": held}))


def measure_variant(name, weights):
    out = subprocess.run([sys.executable, os.path.abspath(__file__), "-m", weights, "--variant", name],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def measure_flatclip(programs, weights):
    """The stress program on that photograph: bytes after its first pass and after ten more."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "memory.csv")
        subprocess.run([os.path.join(programs, "flatclip-stress"), "-m", weights, "--no-faults", "--sessions", "1",
                        "--threads", "1", "--batch", "1", "--plain", "--iterations", str(PASSES + 1), "--csv", path,
                        PHOTO], check=True, stdout=subprocess.DEVNULL)
        with open(path) as file:
            rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(file)]
    return {key: (rows[0][key], rows[-1][key]) for key in ("engine", "heap", "resident")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", required=True, help="a full-size ViT-B/32 model file")
    parser.add_argument("--programs", default=os.path.join(ROOT, "build"), help="where flatclip-stress is")
    parser.add_argument("--variant", choices=VARIANTS, help="run one of PyTorch's loops here (for this script itself)")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    args = parser.parse_args()
    if args.variant:
        run_variant(args.variant, args.model)
        return

    results = {name: measure_variant(name, args.model) for name in VARIANTS}
    first = results["as-it-was"]
    what = "torch.cuda.memory_allocated()" if first["counter"] == "cuda" else "resident memory of the process (CPU)"
    print(f"ViT-B/32, one photograph, {PASSES} passes; torch {first['torch']}; {what}, after a warm-up\n")
    print(f"{'':36}{'bytes before':>15} {'bytes after':>15} {'growth a pass':>15} {'torch holds, a pass':>20}")
    for name, (_, title) in VARIANTS.items():
        r = results[name]
        held = "" if r["held"] is None else f"{r['held'] / PASSES:,.0f}"
        growth = (r["after"][-1] - r["before"]) / PASSES
        print(f"{title:36}{r['before']:>15,} {r['after'][-1]:>15,} {growth:>15,.0f} {held:>20}")
    print(f"{'a newer PyTorch':36}all of the above: torch {first['torch']}")
    a, b = PUBLISHED
    print(f"{'published (GPU)':36}{a:>15,} {b:>15,} {(b - a) / PASSES:>15,.0f}\n")
    ours = results["flatclip"] = measure_flatclip(args.programs, args.model)
    for key, (before, after) in ours.items():
        print(f"{'flatclip, ' + key + ' bytes':36}{before:>15,} {after:>15,} {(after - before) / PASSES:>15,.0f}")
    if ours["heap"][0] != ours["heap"][1] or ours["engine"][0] != ours["engine"][1]:
        sys.exit("flatclip grew")
    if args.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
