#!/usr/bin/env python3
"""Changes the kernels at random, one token at a time, and counts how many changes the tests notice.

    mutate.py BUILD_DIR [COUNT [SEED]]    CXX, FLAGS, WATCH, LIBS from the environment (make mutants)

A mutant is one change in the body of a kernel or of what it is made of: a comparison that takes the
other edge, + for -, a constant one larger, a barrier or a wait left out. Those that do not compile
are not counted. Prints every survivor, to be explained or to be caught by a new test, and the score.
"""
import os
import random
import re
import sys

import plant_bugs

# What is mutated, and the tests that look at it.
FILES = {
    "layernorm.cu": "layernorm tokens gathered",
    "device/row_norm.cuh": "layernorm tokens the_head",
    "device/product.cuh": "every_tile float32",
    "device/sources.cuh": "every_tile float32 patches",
    "device/epilogues.cuh": "every_tile activations absent patches",
    "attention.cu": "attention query_alone",
    "patch_embed.cu": "patches",
    "head.cu": "the_head direction",
}

CHANGES = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" / ", " * "), (r" % ", " / "), (r" && ", " || "),
    (r" \^ ", " + "), (r"\b(\d+)\b(?!\.)", lambda m: str(int(m.group(1)) + 1)),
    (r"__syncthreads\(\);", ";"), (r"__syncwarp\(\);", ";"), (r"copy_wait<[^>]*>\(\);", ";"), (r"copy_commit\(\);", ";"),
    (r"\badd\(", "multiply("), (r"fmaxf\(", "fminf("),
]


def bodies(text):
    """Where code is that may change: not comments, preprocessor lines, launchers or declarations."""
    end = text.find("/* -- Launchers")
    code = text if end < 0 else text[:end]
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "\0", m.group()), code, flags=re.S)
    return re.sub(r"^(#|KERNEL|template|constexpr|static|struct|typedef|    static).*$",
                  lambda m: "\0" * len(m.group()), code, flags=re.M)


def mutants():
    """All of them: file, offset, what stands there, what takes its place."""
    found = []
    for file in FILES:
        with open(os.path.join("kernels", file)) as f:
            text = f.read()
        code = bodies(text)
        for pattern, change in CHANGES:
            for match in re.finditer(pattern, code):
                after = change(match) if callable(change) else change
                found.append((file, match.start(), match.group(), after))
    return found


def main():
    build, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    every = mutants()
    killed = survived = 0
    for number, (file, at, before, after) in enumerate(random.sample(every, min(count, len(every)))):
        with open(os.path.join("kernels", file)) as f:
            text = f.read()
        line = text.count("\n", 0, at) + 1
        source = text.split("\n")[line - 1].strip()
        # plant_bugs replaces text: enough of it that it stands there once.
        start, stop = at, at + len(before)
        while text.count(text[start:stop]) > 1:
            start, stop = max(0, start - 8), min(len(text), stop + 8)
        bug = ("", file, text[start:stop], text[start:at] + after + text[at + len(before):stop], FILES[file], "")
        program, problem = plant_bugs.plant(build, f"mutant{number}", bug)
        if not program:
            continue
        good, finding = plant_bugs.run_tests(program, FILES[file])
        killed, survived = killed + (not good), survived + good
        if good:
            print(f"survived  {file}:{line}  {before.strip()} -> {after.strip()}   {source}", flush=True)
    print(f"{killed} of {killed + survived} mutants were noticed, of {len(every)} that there are")


if __name__ == "__main__":
    main()
