#!/usr/bin/env python3
"""One peer in a process of its own, which does what it is told in JSON lines on standard input:

    peer_worker.py NAME MODEL.safetensors FOLDER THREADS

    {"do": "rows", "path": P}            encodes the pixels in P.npy, and leaves P-NAME.npy
    {"do": "time", "batch": B, "seconds": S}   median seconds of a call: one that does not count, then
                                               as many as fit, three at least (one, if that is long)
    {"do": "grow", "calls": N, "seconds": S}   resident bytes after a tenth of N calls more, and after N
                                               more, or as many as S seconds allow; and how many

    peer_worker.py --cold NAME MODEL.safetensors FOLDER PHOTO

is a whole program: from start to the first embedding of one photograph, on one thread.
"""
import json
import os
import statistics
import sys
import time

import numpy as np

from peer_encoders import PEERS, TEXT_PEERS


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def noise_for(name, batch):
    """Normalised pixels, or for a peer that encodes text, captions of 77 tokens."""
    random = np.random.default_rng(batch)
    if name in TEXT_PEERS:
        tokens = random.integers(1, 49406, (batch, 77))
        tokens[:, 0], tokens[:, -1] = 49406, 49407
        return tokens
    return random.standard_normal((batch, 3, 224, 224)).astype(np.float32)


class Worker:
    def __init__(self, name, model, folder, threads):
        self.name = name
        self.encode = {**PEERS, **TEXT_PEERS}[name][3](model, folder, int(threads))
        self.inputs = {}

    def noise(self, batch):
        if batch not in self.inputs:
            self.inputs[batch] = noise_for(self.name, batch)
        return self.inputs[batch]

    def rows(self, path):
        out = f"{path[:-4]}-{self.name}.npy"
        np.save(out, self.encode(np.load(path)))
        return out

    def time(self, batch, seconds):
        inputs, calls = self.noise(batch), []
        self.encode(inputs)
        while len(calls) < 3 and sum(calls) < 2 * seconds or sum(calls) < seconds:
            start = time.perf_counter()
            self.encode(inputs)
            calls.append(time.perf_counter() - start)
        return statistics.median(calls)

    def grow(self, calls, seconds):
        pixels = self.noise(1)
        for _ in range(calls // 10):
            self.encode(pixels)
        before, done, end = resident(), 0, time.perf_counter() + seconds
        while done < calls and time.perf_counter() < end:
            self.encode(pixels)
            done += 1
        return [before, resident(), done]


def serve(arguments):
    worker = Worker(*arguments)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(getattr(worker, order.pop("do"))(**order)), flush=True)


def start_cold(name, model, folder, photo):
    """What a user's shortest script does: open, preprocess with Pillow, encode."""
    from PIL import Image

    from peer_models import normalise, read_config, recipe

    encode = PEERS[name][3](model, folder, 1)
    print(float(encode(normalise([recipe(Image.open(photo))], read_config(model))).sum()))


if __name__ == "__main__":
    if sys.argv[1] == "--cold":
        start_cold(*sys.argv[2:])
    else:
        serve(sys.argv[1:])
