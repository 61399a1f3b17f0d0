#!/usr/bin/env python3
"""Changes the kernels at random, one token at a time; the tests must notice.

    mutate.py BUILD_DIR [COUNT [SEED]]    CXX, FLAGS, WATCH, LIBS from the environment (make mutants)

A mutant is one change in the body of a kernel or of what it is made of: a comparison that takes the
other edge, + for -, a constant one larger, a barrier or a wait left out. Those that do not compile
are not counted. One that no test notices fails, unless survivors.txt says why nothing can notice it.

Which mutants are taken is decided by a hash of each, not by its number: a change in one line of a
kernel changes only that line's mutants.
"""
import concurrent.futures
import hashlib
import os
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
    "finish.cu": "finishes",
}

CHANGES = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" / ", " * "), (r" % ", " / "), (r" && ", " || "),
    (r" \^ ", " + "), (r"\b(\d+)\b(?!\.)", lambda m: str(int(m.group(1)) + 1)),
    (r"__syncthreads\(\);|__syncwarp\(\);|copy_wait<[^>]*>\(\);|copy_commit\(\);", lambda m: f"/* no {m.group()} */;"),
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


def key_of(text, at, before, after):
    """The changed line as survivors.txt has it, behind as many lines before it as make it the only one."""
    lines = [" ".join(line.split()) for line in text.split("\n")]
    number = text.count("\n", 0, at)
    start, stop = text.rfind("\n", 0, at) + 1, (text + "\n").find("\n", at + len(before))
    changed = " ".join((text[start:at] + after + text[at + len(before):stop]).split())
    first = number
    while first and sum(lines[i:i + number - first + 1] == lines[first:number + 1] for i in range(len(lines))) > 1:
        first -= 1
    return " / ".join(lines[first:number] + [changed])


def explained():
    """What survivors.txt lists: pairs of file and changed line."""
    pairs = set()
    with open(os.path.join(os.path.dirname(__file__), "survivors.txt")) as f:
        for line in f:
            if line.strip() and not line.startswith(("#", " ")):
                file, changed = line.strip().split(": ", 1)
                pairs.add((file, changed))
    return pairs


def try_mutant(build, number, mutant):
    """The mutant's place, its key, and whether the tests noticed it: None if it does not compile."""
    file, at, before, after = mutant
    with open(os.path.join("kernels", file)) as f:
        text = f.read()
    where = f"{file}:{text.count(chr(10), 0, at) + 1}"
    # plant_bugs replaces text: enough of it that it stands there once.
    start, stop = at, at + len(before)
    while text.count(text[start:stop]) > 1:
        start, stop = max(0, start - 8), min(len(text), stop + 8)
    bug = ("", file, text[start:stop], text[start:at] + after + text[at + len(before):stop], FILES[file], "")
    program, _ = plant_bugs.plant(build, f"mutant{number}", bug)
    noticed = None
    if program:
        good, _ = plant_bugs.run_tests(program, FILES[file])
        noticed = not good
    return where, key_of(text, at, before, after), noticed


def sample(count, seed):
    def rank(mutant):
        file, at, before, after = mutant
        with open(os.path.join("kernels", file)) as f:
            key = key_of(f.read(), at, before, after)
        return hashlib.sha256(f"{seed} {file} {key}".encode()).digest()
    every = mutants()
    return sorted(every, key=rank)[:count], len(every)


def main():
    build, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
    chosen, total = sample(count, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    reasons = explained()
    sums = {"noticed": 0, "explained": 0, "SURVIVED": 0, "does not compile": 0}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "0")) or os.cpu_count()) as pool:
        tries = [pool.submit(try_mutant, build, i, mutant) for i, mutant in enumerate(chosen)]
        for done in concurrent.futures.as_completed(tries):
            where, key, noticed = done.result()
            is_explained = (where.split(":")[0], key) in reasons
            what = ("does not compile" if noticed is None else "noticed" if noticed
                    else "explained" if is_explained else "SURVIVED")
            sums[what] += 1
            print(f"{what:9} {where:24} {key[-100:] if what != 'SURVIVED' else key}", flush=True)
            if noticed and is_explained:
                print("          survivors.txt explains this one, which is noticed: take it out", flush=True)
    print(f"{sums['noticed']} noticed, {sums['explained']} that nothing can notice, {sums['SURVIVED']} survived, "
          f"{sums['does not compile']} did not compile; of {total} that there are")
    print(f"{sums['noticed'] + sums['explained']} passed, {sums['SURVIVED']} failed")
    return sums["SURVIVED"] != 0


if __name__ == "__main__":
    sys.exit(main())
