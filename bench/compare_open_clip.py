#!/usr/bin/env python3
"""flatclip and open_clip (PyTorch) side by side on one CPU core, in one run of one script.

Loads the same weights into both, checks that they give the same embeddings, then alternates: speed
on ready pixels at batch 1 and 32, the time from process start to the first embedding of one
photograph, peak memory, and pictures to pixels beside Pillow's own. Run by `make bench-peers`; prints a table and, with --json, one object.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IMAGES = os.path.join(ROOT, "tests/data/images/good")
FLATCLIP = os.path.join(ROOT, "build/flatclip")
BENCH = os.path.join(ROOT, "build/flatclip-bench")
PIXELS = os.path.join(ROOT, "build/flatclip-pixels")

# What a user of open_clip writes; the cold start of a script is the cold start of this.
COLD = """
import sys, torch, open_clip
from PIL import Image
from safetensors.torch import load_file
torch.set_num_threads(1)
model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32-quickgelu", pretrained=None)
state = load_file(sys.argv[1])
model.load_state_dict({k: state[k].reshape(v.shape).to(v.dtype) for k, v in model.state_dict().items() if k in state}, strict=False)
model.eval()
with torch.no_grad():
    y = model.encode_image(preprocess(Image.open(sys.argv[2]))[None])
print(float((y / y.norm()).sum()))
"""


def load_open_clip(path):
    """open_clip's model with the weights of our file, every image tensor accounted for."""
    import open_clip
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32-quickgelu", pretrained=None)
    ours, theirs = load_file(path), model.state_dict()
    missing = [k for k in theirs if k.startswith("visual.") and k not in ours]
    if missing:
        sys.exit(f"{path} lacks {missing}")
    model.load_state_dict({k: ours[k].reshape(v.shape).to(v.dtype) for k, v in theirs.items() if k in ours},
                          strict=False)
    return model.eval(), preprocess


def check_agreement(model, preprocess, path):
    """Both embed the sample pictures; returns how many, and the largest difference of an element."""
    import numpy as np
    import torch
    from PIL import Image

    files = sorted(glob.glob(os.path.join(IMAGES, "*.jpg")))
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "rows.npy")
        subprocess.run([FLATCLIP, "embed", "-m", path, "--device", "cpu", "-o", out, *files], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ours = np.load(out)
    with torch.no_grad():
        rows = torch.cat([model.encode_image(preprocess(Image.open(f))[None]) for f in files])
        theirs = (rows / rows.norm(dim=1, keepdim=True)).numpy()
    return len(files), float(np.abs(ours - theirs).max())


def time_open_clip(model, batch, repeats):
    """Median seconds a call, after two that warm up."""
    import torch

    pixels = torch.rand(batch, 3, 224, 224)
    times = []
    with torch.inference_mode():
        for i in range(-2, repeats):
            start = time.perf_counter()
            model.encode_image(pixels)
            if i >= 0:
                times.append(time.perf_counter() - start)
    return statistics.median(times)


def time_flatclip(path, batch, repeats):
    out = subprocess.run([BENCH, "-m", path, "--device", "cpu", "--threads", "1", "--batch", str(batch), "--repeats",
                          str(repeats), "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)["results"][0]["median_ms"] / 1e3


def run_measured(command):
    """Seconds and peak resident MiB of a process; the photograph and the model are in the page cache."""
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{command[:4]} failed")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def compare_processes(args, result):
    """Cold start and peak memory. Before PyTorch is loaded here: a child's peak starts at its parent's.

    Each program several times in a row, and then in turns: a virtual machine may have given the memory
    that the other program freed back to its host, and then fresh pages are several times as slow.
    """
    photo = os.path.join(IMAGES, "cat_420.jpg")
    with tempfile.TemporaryDirectory() as folder:
        embed = [FLATCLIP, "embed", "-m", args.model, "--device", "cpu", "--quiet", "-o",
                 os.path.join(folder, "o.npy")]
        programs = ([*embed, photo], [sys.executable, "-c", COLD, args.model, photo])
        in_row = [[run_measured(program) for _ in range(args.rounds)] for program in programs]
        in_turn = list(zip(*([run_measured(program) for program in programs] for _ in range(args.rounds))))
        batch_peak = run_measured([*embed, "--batch", "32", IMAGES])[1]

    print(f"{'one core':40}{'flatclip':>12} {'open_clip':>12}")
    for name, key, runs in (("process start to first embedding, s", "cold_start_s", in_row),
                            ("the same, in turns, s", "cold_start_in_turns_s", in_turn)):
        a, b = (statistics.median(t for t, _ in column) for column in runs)
        result[key] = {"flatclip": a, "open_clip": b}
        print(f"{name:40}{a:>12.2f} {b:>12.2f}")
    a, b = (max(m for _, m in column) for column in in_row)
    result["peak_mib"] = {"flatclip": a, "open_clip": b, "flatclip_batch32": batch_peak}
    print(f"{'peak memory, one photograph, MiB':40}{a:>12.0f} {b:>12.0f}")
    print(f"{'peak memory, --batch 32, MiB':40}{batch_peak:>12.0f}")


def compare_speed(args, result):
    """Checks that both compute the same, then alternates batches of ready pixels."""
    import open_clip
    import torch

    model, preprocess = load_open_clip(args.model)
    count, gap = check_agreement(model, preprocess, args.model)
    print(f"\nopen_clip {open_clip.__version__}, torch {torch.__version__}; one core, float32")
    print(f"same embeddings: {count} pictures, largest difference {gap:.1e}")
    if gap > 1e-5:
        sys.exit("the two disagree: the speeds mean nothing")
    result.update(torch=torch.__version__, max_difference=gap, speed=[])
    print(f"{'batch':>6} {'flatclip':>12} {'open_clip':>12}   images/s, median of {args.rounds} rounds")
    for batch, repeats in ((1, 10), (32, 3)):
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(time_flatclip(args.model, batch, repeats))
            theirs.append(time_open_clip(model, batch, repeats))
        a, b = batch / statistics.median(ours), batch / statistics.median(theirs)
        ratio = statistics.median(t / o for o, t in zip(ours, theirs))  # of neighbours in time
        result["speed"].append({"batch": batch, "flatclip": a, "open_clip": b, "ratio": ratio})
        print(f"{batch:>6} {a:>12.2f} {b:>12.2f}   {ratio:.2f} times as fast")


def median_ms(work, rounds=5):
    times = []
    for i in range(-1, rounds):
        start = time.perf_counter()
        work()
        if i >= 0:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def flatclip_pixels(*arguments):
    out = subprocess.run([PIXELS, "--repeats", "5", "--json", *arguments], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)["ms"]


def compare_pixels(args, result):
    """Resizing alone, and JPEG bytes to pixels: the same pixels, as the tests check."""
    import io

    import numpy as np
    import PIL
    from PIL import Image

    def recipe(image):
        w, h = image.size
        size = (224, int(224 * h / w)) if w <= h else (int(224 * w / h), 224)
        image = image.resize(size, Image.BICUBIC)
        left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
        return np.asarray(image.crop((left, top, left + 224, top + 224)).convert("RGB"))

    print(f"\nPillow {PIL.__version__}; one thread, median ms")
    print(f"{'':36}{'flatclip':>12} {'Pillow':>12}")
    result["pixels_ms"] = []
    photo = Image.open(os.path.join(IMAGES, "coffee_large.jpg"))
    for name, size in (("1 MP", (1224, 816)), ("12 MP", (4242, 2828))):
        image = photo.resize(size, Image.BICUBIC)
        data = io.BytesIO()
        image.save(data, "JPEG", quality=90)
        with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
            file.write(data.getvalue())
            file.flush()
            rows = (
                (f"{name}, resize and crop", lambda: flatclip_pixels("--resize", f"{size[0]}x{size[1]}"),
                 lambda: recipe(image)),
                (f"{name}, JPEG bytes to pixels", lambda: flatclip_pixels(file.name),
                 lambda: recipe(Image.open(io.BytesIO(data.getvalue())))),
            )
            for what, ours, theirs in rows:
                pairs = [(ours(), median_ms(theirs)) for _ in range(args.rounds)]
                a, b = (statistics.median(column) for column in zip(*pairs))
                result["pixels_ms"].append({"what": what, "flatclip": a, "pillow": b})
                print(f"{what:36}{a:>12.2f} {b:>12.2f}   {b / a:.2f} times as fast")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", required=True, help="a full-size ViT-B/32 model file")
    parser.add_argument("--rounds", type=int, default=7, help="alternations of each measurement")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, for every child too

    result = {}
    compare_processes(args, result)
    compare_speed(args, result)
    compare_pixels(args, result)
    if args.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
