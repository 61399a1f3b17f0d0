"""Checks what nvcc made of the kernels, and ends with `N passed, N failed` (make static-gates).

    check.py [--update] --planted JSON... --measured JSON... --races PTX...

A check is one question to all kernels of one architecture, one planted fault, or one kernel's PTX.
"""
import argparse
import json
import os
import re
import subprocess
import sys
from copy import deepcopy

import budget as budgets
import races
import table

HERE = os.path.dirname(os.path.abspath(__file__))
BUDGET = os.path.join(HERE, "budget.txt")
TABLE = os.path.join(HERE, "../../docs/kernel-resources.md")

# Subroutines that are no slow path: up to 8.9 nvcc calls these where it cannot see that all lanes
# of a warp come along, as in the loops over warps of head_kernel and attention_f32_kernel. Four
# instructions: the warp gathers, and shuffles.
GATHERS = {"__cuda_sm70_shflsync_bfly_p", "__cuda_sm70_warpsync"}
MAY_GATHER = re.compile(r"(head \d+ \w+|attention 80 f32)$")


def over_budget(name, kernel, budget, architecture):
    """(question, what is wrong) for what exceeds the budget of a kernel."""
    if name not in budget or architecture not in budget[name]:
        yield "registers", "has no budget"
        return
    entry = budget[name]
    registers, warps = entry[architecture]
    if kernel["registers"] > registers:
        yield "registers", "%d registers, budget %d" % (kernel["registers"], registers)
    if kernel["shared"] > entry["shared"]:
        yield "shared memory", "%d bytes, budget %d" % (kernel["shared"], entry["shared"])
    if kernel["warps"] < warps:
        yield "occupancy", "%d warps, budget at least %d" % (kernel["warps"], warps)
    if kernel["banks"] > entry["banks"]:
        yield "bank conflicts", "%d lanes in a bank at %s, budget %d" % (
            kernel["banks"], ", ".join(kernel["conflicts"]), entry["banks"])


def wrong_instructions(name, kernel, architecture):
    """(question, what is wrong) for what no kernel may have, or this one lacks."""
    has = kernel["instructions"]
    for what in ("spills", "stack", "local"):
        if kernel[what]:
            yield "local memory", "%d bytes of %s" % (kernel[what], what)
    for what in ("LDL", "STL"):
        if has.get(what):
            yield "local memory", "%d %s" % (has[what], what)
    if has.get("double"):
        yield "instructions", "%d instructions of double precision" % has["double"]
    if kernel["tensor"]:
        for what in needed(name, architecture):
            if not has.get(what):
                yield "instructions", "no %s" % what
    for target, count in sorted(kernel["calls"].items()):
        if not (target in GATHERS and MAY_GATHER.match(name)):
            yield "subroutines", "%d calls of %s" % (count, target)
    if not kernel["described"]:
        yield "launches", "is not described in kernel_names.py"
    elif kernel["threads"] > kernel["bound"]:
        yield "launches", "%d threads, bound %d" % (kernel["threads"], kernel["bound"])


def needed(name, architecture):
    """Instructions without which a product of 16-bit matrices is not what it should be."""
    if architecture == "sm_75":  # no asynchronous copies; bf16 is compiled, and never launched
        return () if "bf16" in name else ("HMMA", "LDSM")
    return "HMMA", "LDSM", "LDGSTS"


QUESTIONS = ("registers", "shared memory", "occupancy", "bank conflicts", "local memory",
             "instructions", "subroutines", "launches")


class Sums:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, good, text):
        self.passed += bool(good)
        self.failed += not good
        print("%s %s" % ("ok    " if good else "FAILED", text), flush=True)


def check_kernels(sums, measured, budget):
    for architecture, kernels in measured.items():
        wrong = {question: [] for question in QUESTIONS}
        for name, kernel in kernels.items():
            for question, text in (*over_budget(name, kernel, budget, architecture),
                                   *wrong_instructions(name, kernel, architecture)):
                wrong[question].append("%s: %s" % (name, text))
        for question, texts in wrong.items():
            sums.check(not texts, "%s, %s: %s" % (architecture, question, "; ".join(texts) or
                                                  "%d kernels" % len(kernels)))
    known = {name for kernels in measured.values() for name in kernels}
    gone = sorted(set(budget) - known)
    sums.check(not gone, "every budget has its kernel" + "".join("; not " + name for name in gone))


def print_room(measured, budget):
    """Where kernels are better than their budget, which may then be written anew."""
    for architecture, kernels in measured.items():
        most = {name: entry[architecture][0] for name, entry in budget.items()
                if architecture in entry}
        better = ["%s %d registers (%d)" % (name, kernel["registers"], most[name])
                  for name, kernel in kernels.items()
                  if kernel["registers"] < most.get(name, 0)]
        if better:
            print("note: %s, better than the budget: %s" % (architecture, "; ".join(better)))


# The fault that each planted kernel has: file, question, a word of the finding.
PLANTED = {
    "local_memory": ("local memory", "bytes of stack"),
    "spills": ("local memory", "bytes of spills"),
    "double_precision": ("instructions", "double precision"),
    "slow_path": ("subroutines", "slowpath"),
    "bank_conflicts": ("bank conflicts", "32 lanes in a bank"),
    "no_tensor_cores": ("instructions", "no HMMA"),
}


def check_planted(sums, paths):
    """Each fault must be found. Kernels get a budget that they just keep, but for conflicts."""
    files = {os.path.basename(path)[:-5]: path for path in paths}
    sums.check(set(files) == set(PLANTED), "planted faults: %d" % len(PLANTED))
    for fault, (question, word) in sorted(PLANTED.items()):
        kernels = load([files[fault]])["sm_80"] if fault in files else {}
        findings = []
        for name, kernel in kernels.items():
            budget = budgets.of({"sm_80": {name: dict(kernel, banks=1)}})
            findings += over_budget(name, kernel, budget, "sm_80")
            findings += wrong_instructions(name, kernel, "sm_80")
        found = [text for asked, text in findings if asked == question and word in text]
        sums.check(found, "planted %s: %s" % (fault, "; ".join(found) or "not found"))


def check_budget_can_fail(sums, measured, budget):
    """A budget one lower, or a warp higher, must be exceeded."""
    architecture, kernels = next(iter(measured.items()))
    name, kernel = next(item for item in kernels.items() if item[1]["shared"])
    registers, warps = kernel["registers"], kernel["warps"]
    for question, change in (("registers", {architecture: (registers - 1, warps)}),
                             ("occupancy", {architecture: (registers, warps + 1)}),
                             ("shared memory", {"shared": kernel["shared"] - 1})):
        lower = deepcopy(budget)
        lower.setdefault(name, {}).update(budgets.of({architecture: {name: kernel}})[name])
        lower[name].update(change)
        found = [text for asked, text in over_budget(name, kernel, lower, architecture)
                 if asked == question]
        sums.check(found, "planted budget, %s: %s" % (question, "; ".join(found) or "not exceeded"))


def check_table(sums, measured, update):
    nvcc = re.search(r"release ([\d.]+)", subprocess.run(
        ["nvcc", "--version"], capture_output=True, text=True, check=True).stdout).group(1)
    text = table.text(measured, nvcc)
    if update:
        with open(TABLE, "w", encoding="utf-8") as out:
            out.write(text)
    with open(TABLE, encoding="utf-8") as lines:
        sums.check(lines.read() == text, "docs/kernel-resources.md is what was measured"
                   " (make static-gates UPDATE=1 writes it)")


def load(paths):
    """{architecture: {kernel: figures}} of measure.py's files, in the order of architectures"""
    measured = {}
    for path in paths:
        with open(path, encoding="utf-8") as text:
            part = json.load(text)
        measured.setdefault(part["architecture"], {}).update(part["kernels"])
    return dict(sorted(measured.items(), key=lambda item: int(item[0][3:])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    for name in ("--planted", "--measured", "--races"):
        parser.add_argument(name, nargs="+", default=[])
    options = parser.parse_args()
    sums = Sums()
    measured = load(options.measured)
    if options.update:
        budgets.write(BUDGET, budgets.of(measured), list(measured))
    budget = budgets.read(BUDGET)
    check_kernels(sums, measured, budget)
    check_table(sums, measured, options.update)
    check_planted(sums, options.planted)
    check_budget_can_fail(sums, measured, budget)
    print_room(measured, budget)
    races.check(sums, options.races)
    print("%d passed, %d failed" % (sums.passed, sums.failed))
    return 1 if sums.failed or not sums.passed else 0


if __name__ == "__main__":
    sys.exit(main())
