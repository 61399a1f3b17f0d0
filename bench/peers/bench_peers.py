#!/usr/bin/env python3
"""flatclip and its peers side by side: the same weights and pictures, runs in turns, ratios.

Every peer is a process of its own (peer_worker.py). First all must give the same embeddings; then
they take turns, round after round, so that a ratio is of neighbours in time; its median and its range
are printed. What cannot be installed or does not run is named with its reason. Run by
`make bench-peers`; prints tables in Markdown, and with --write puts them into that file, between the
lines `<!-- bench-peers -->` and `<!-- bench-peers end -->`.
"""
import argparse
import datetime
import importlib.metadata
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from peer_encoders import PEERS, TEXT_PEERS
from peer_models import KINDS, ROOT, path_of
from peer_pixels import PEERS as PIXEL_PEERS

HERE = os.path.dirname(os.path.abspath(__file__))
PHOTO = os.path.join(ROOT, "tests/data/images/good/cat_420.jpg")
LARGE = os.path.join(ROOT, "tests/data/images/good/coffee_large.jpg")
PACKAGES = ("torch", "open_clip_torch", "transformers", "onnxruntime", "openvino", "nncf", "faster-clip", "clip-cpp",
            "pillow", "torchvision", "opencv-python-headless", "pyvips-binary", "hf-processors-rs")
OURS, OURS_TEXT = "flatclip", "open_clip-text"


class Settings:
    """How much is measured: quick tells whether it runs, and little of how fast."""

    def __init__(self, args):
        self.model, self.folder = args.model, args.folder
        self.rounds, self.seconds = (2, 0.1) if args.quick else (args.rounds, 0.5)
        self.batches = (1, 8) if args.quick else (1, 8, 32)
        self.starts = 1 if args.quick else 2
        self.growing_calls, self.growing_seconds = (40, 10) if args.quick else (args.growth, 120)


def say(text):
    print(text, file=sys.stderr, flush=True)


# -- Processes ------------------------------------------------------------------------------------
def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no output"


class Worker:
    """A peer in its process, on as many CPUs as threads."""

    def __init__(self, name, settings, threads):
        self.errors = tempfile.TemporaryFile("w+")
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "peer_worker.py"), name, settings.model, settings.folder, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)}, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.answer()

    def answer(self):
        """The next JSON line; libraries may print others."""
        for line in self.process.stdout:
            try:
                return json.loads(line)
            except ValueError:
                continue
        self.process.wait()
        self.errors.seek(0)
        raise RuntimeError(last_line(self.errors.read()))

    def do(self, what, **how):
        self.process.stdin.write(json.dumps({"do": what, **how}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def open_workers(names, settings, threads, left_out):
    workers = {}
    for name in names:
        try:
            workers[name] = Worker(name, settings, threads)
        except (RuntimeError, OSError) as error:
            left_out[name] = str(error)
    return workers


def make_files(settings, left_out):
    """What the peers read; whoever lacks a file is left out with the reason."""
    os.makedirs(settings.folder, exist_ok=True)
    reasons = {}
    for kind in KINDS:
        if not os.path.exists(path_of(settings.folder, kind)):
            say(f"making {kind}")
            done = subprocess.run([sys.executable, os.path.join(HERE, "peer_models.py"), settings.model,
                                   settings.folder, kind], capture_output=True, text=True)
            if done.returncode:
                reasons[kind] = last_line(done.stderr)
    for name, (_, _, kinds, _) in {**PEERS, **TEXT_PEERS}.items():
        for kind in kinds:
            if kind in reasons:
                left_out[name] = f"no {kind} file: {reasons[kind]}"


# -- Tables ---------------------------------------------------------------------------------------
def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def title(name):
    text, precision = {**PEERS, **TEXT_PEERS}[name][:2]
    return f"{text}, {precision}"


# -- Measurements: each returns Markdown ----------------------------------------------------------
def agreement(workers, settings):
    """Largest difference of an element, and the worst cosine, to flatclip over the photographs."""
    path = path_of(settings.folder, "pixels")
    rows = {name: np.load(worker.do("rows", path=path)) for name, worker in workers.items()}
    lines, wrong = [], []
    for name, theirs in rows.items():
        gap = float(np.abs(theirs - rows[OURS]).max())
        cosine = float((theirs * rows[OURS]).sum(axis=1).min())
        limit = 1e-5 if PEERS[name][1] == "fp32" and name != "faster-clip" else None
        if (limit and gap > limit) or cosine < 0.99:
            wrong.append(name)
        lines.append([title(name), f"{gap:.1e}", f"{cosine:.6f}"])
    if wrong:
        sys.exit(f"these disagree with flatclip, so that speeds would mean nothing: {wrong}")
    return (f"All give the same embeddings of {len(rows[OURS])} photographs, each as near as its precision allows:\n\n"
            + table(["", "largest difference", "least cosine"], lines))


def in_turns(workers, settings, batch):
    """{name: seconds a call by round}"""
    seconds = {name: [] for name in workers}
    for _ in range(settings.rounds * (3 if batch == 1 else 1)):  # short calls: more of them fit
        for name, worker in workers.items():
            seconds[name].append(worker.do("time", batch=batch, seconds=settings.seconds))
    return seconds


def speed(workers, settings, threads, ours, what):
    """One table for a number of threads: images a second, and how many times as long a peer takes."""
    by_batch = {batch: in_turns(workers, settings, batch) for batch in settings.batches}
    rows = []
    for name in workers:
        row = [title(name)]
        for batch, seconds in by_batch.items():
            rate = batch / statistics.median(seconds[name])
            ratio = spread([a / b for a, b in zip(seconds[name], seconds[ours])])
            row.append(f"{rate:.1f}" if name == ours else f"{rate:.1f}: {ratio}")
        rows.append(row)
    head = [f"{what}, {threads} thread{'s' * (threads > 1)}"] + [f"batch {batch}" for batch in settings.batches]
    return table(head, rows)


def growth(workers, settings):
    rows = []
    for name, worker in workers.items():
        before, after, calls = worker.do("grow", calls=settings.growing_calls, seconds=settings.growing_seconds)
        rows.append([title(name), str(calls), f"{after - before:,}", f"{after / 2**20:.0f}"])
    return table(["resident memory, batch 1", "calls", "growth, bytes", "MiB in the end"], rows)


def run_measured(command):
    """(seconds, peak resident MiB) of a whole process."""
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"exit status {status}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def processes(names, settings, left_out):
    """Cold start and peak memory of programs that embed one photograph, in turns."""
    programs = {"flatclip, command line": [os.path.join(ROOT, "build/flatclip"), "embed", "-m", settings.model,
                                           "--threads", "1", "--device", "cpu", "--quiet", "-o",
                                           os.path.join(settings.folder, "cold.npy"), PHOTO]}
    for name in names:
        if name not in left_out:
            programs[title(name) + ", from Python"] = [
                sys.executable, os.path.join(HERE, "peer_worker.py"), "--cold", name, settings.model, settings.folder,
                PHOTO]
    runs = {what: [] for what in programs}
    for _ in range(settings.starts):
        for what, command in programs.items():
            try:
                runs[what].append(run_measured(command))
            except (RuntimeError, OSError) as error:
                left_out[what] = str(error)
    rows = [[what, f"{statistics.median(s for s, _ in done):.2f}", f"{max(m for _, m in done):.0f}"]
            for what, done in runs.items() if done]
    return table(["process start to the first embedding, one photograph, 1 thread", "s", "peak MiB"], rows)


def pixels_ours(path, settings):
    out = subprocess.run([os.path.join(ROOT, "build/flatclip-bench"), "--preprocess", "--json", "--repeats",
                          "5" if settings.seconds < 0.2 else "20", path], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)["results"][0]["median_ms"]


def pixels_theirs(name, path, settings):
    done = subprocess.run([sys.executable, os.path.join(HERE, "peer_pixels.py"), name, path, str(settings.seconds)],
                          capture_output=True, text=True,
                          env={**os.environ, "RAYON_NUM_THREADS": "1", "VIPS_CONCURRENCY": "1", "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise RuntimeError(last_line(done.stderr))
    return json.loads(done.stdout.splitlines()[-1])


def preprocessing(settings, left_out):
    """A JPEG's bytes to 224 x 224 pixels, in turns."""
    from PIL import Image

    rows = {name: [text] for name, (text, _) in PIXEL_PEERS.items()}
    ours_row, gaps = ["flatclip: Pillow's pixels"], {}
    with tempfile.TemporaryDirectory() as folder:
        for what, size in (("1 MP", (1224, 816)), ("12 MP", (4242, 2828))):
            path = os.path.join(folder, "photo.jpg")
            data = io.BytesIO()
            Image.open(LARGE).resize(size, Image.BICUBIC).save(data, "JPEG", quality=90)
            with open(path, "wb") as file:
                file.write(data.getvalue())
            ours, theirs = [], {name: [] for name in rows}
            for _ in range(settings.rounds):
                ours.append(pixels_ours(path, settings))
                for name in list(rows):
                    try:
                        found = pixels_theirs(name, path, settings)
                    except RuntimeError as error:
                        left_out[rows.pop(name)[0]] = str(error)
                        continue
                    theirs[name].append(found["ms"])
                    gaps[name] = max(gaps.get(name, 0), found["largest"])
            ours_row.append(f"{statistics.median(ours):.1f}")
            for name, row in rows.items():
                row.append(f"{statistics.median(theirs[name]):.1f}: {spread([a / b for a, b in zip(theirs[name], ours)])}")
    return table(["JPEG to pixels, 1 thread, ms", "1 MP", "12 MP", "largest difference to Pillow's pixels"],
                 [ours_row + ["0"]] + [row + [str(gaps[name])] for name, row in rows.items()])


# -- The report -----------------------------------------------------------------------------------
def cpu_name():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs"


def versions():
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package}: not installed")
    return ", ".join(found)


def measure(settings, left_out):
    """All tables, in the order of the report."""
    make_files(settings, left_out)
    tables = []

    def add(text):
        say("\n" + text)  # as it comes: the rest takes a while
        tables.append(text)

    names = [name for name in PEERS if name not in left_out]
    add(processes(names, settings, left_out))
    cpus = len(os.sched_getaffinity(0))
    for threads in [n for n in (1, 2) if n <= cpus]:
        say(f"encoding, {threads} threads")
        workers = open_workers([name for name in names if name not in left_out], settings, threads, left_out)
        if threads == 1:
            add(agreement(workers, settings))
        add(speed(workers, settings, threads, OURS, "images a second"))
        if threads == min(2, cpus) and settings.growing_calls:
            say("growth")
            add(growth(workers, settings))
        for worker in workers.values():
            worker.close()
    say("text")
    workers = open_workers([name for name in TEXT_PEERS if name not in left_out], settings, 1, left_out)
    if OURS_TEXT in workers:
        add(speed(workers, settings, 1, OURS_TEXT, "captions of 77 tokens a second (flatclip: not built)"))
    for worker in workers.values():
        worker.close()
    say("preprocessing")
    add(preprocessing(settings, left_out))
    return tables


def report(settings, left_out, tables, seconds):
    text = [f"Measured {datetime.date.today()} in {seconds / 60:.0f} minutes on {cpu_name()}; {versions()}. Medians of "
            f"{settings.rounds} rounds ({3 * settings.rounds} at batch 1) in which all take turns. Behind a colon: how many times as long a peer takes as "
            "flatclip (of text: as the first line), median and range over the rounds; below 1 it is ahead. flatclip "
            "computes in fp32 on the CPU; bf16 and int8 are not built yet, so that such peers are compared with fp32."]
    text += tables
    if left_out:
        text.append("Left out: " + "; ".join(f"{name}: {reason}" for name, reason in left_out.items()) + ".")
    return "\n\n".join(text) + "\n"


def write(path, text):
    begin, end = "<!-- bench-peers -->\n", "<!-- bench-peers end -->\n"
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(begin)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + begin + "\n" + text + "\n" + end + rest.split(end)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", required=True, help="a full-size ViT-B/32 model file")
    parser.add_argument("--folder", required=True, help="for the peers' files, kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", type=int, default=1000, metavar="CALLS",
                        help="calls in which memory is watched, 15 minutes of the run; 0: none")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", metavar="FILE", help="put the tables into this Markdown file")
    args = parser.parse_args()
    args.model, args.folder = os.path.abspath(args.model), os.path.abspath(args.folder)
    settings, left_out, start = Settings(args), {}, time.perf_counter()
    text = report(settings, left_out, measure(settings, left_out), time.perf_counter() - start)
    print(text)
    if args.write:
        write(args.write, text)


if __name__ == "__main__":
    main()
