"""Measures what nvcc made of each kernel in a cubin, and writes it as JSON.

    measure.py FILE.sm_NN.cubin OUT.json      with cuxray, cuobjdump and nvdisasm in PATH

Registers and memory come from cuobjdump, instructions from nvdisasm's listing, spills and bank
conflicts from cuxray, as does the occupancy of the largest launch (kernel_names.py).
"""
import json
import re
import subprocess
import sys
from collections import Counter

from cuxray import archspec, occupancy

from kernel_names import Kernel, demangle, describe

INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)")
COUNTED = ("HMMA", "LDSM", "LDGSTS", "LDL", "STL")
DOUBLE = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX|MMA)\b|.*(\.F64|64H)\b")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit("%s: %s" % (" ".join(command), result.stderr.strip() or result.stdout.strip()))
    return result.stdout


def resources(cubin):
    """{mangled: registers, bytes of stack and of local memory}"""
    found = {}
    for name, line in re.findall(r"Function (\w+):\n +(REG:.*)",
                                 run("cuobjdump", "--dump-resource-usage", cubin)):
        field = dict(re.findall(r"(\w+):(\d+)", line))
        found[name] = {"registers": int(field["REG"]), "stack": int(field["STACK"]),
                       "local": int(field["LOCAL"])}
    return found


def instructions(cubin):
    """{mangled: ({group: how many}, {subroutine: calls})}

    A CALL of a label of the kernel itself is how nvcc leaves some loops: a jump, no subroutine."""
    found, groups, calls = {}, None, None
    for line in run("nvdisasm", "-c", cubin).splitlines():
        section = re.match(r"\s*\.section\s+\.text\.(\w+)", line)
        if section:
            groups, calls = found.setdefault(section.group(1), (Counter(), Counter()))
            continue
        match = INSTRUCTION.match(line) if groups is not None else None
        if not match:
            continue
        name = match.group(1).split(".")[0]
        if name in COUNTED:
            groups[name] += 1
        if DOUBLE.match(match.group(1)):
            groups["double"] += 1
        if name == "CALL" and "`(.L_x" not in match.group(2):
            target = re.sub(r"\$__internal_\d+_\$", "", match.group(2).strip(" `();"))
            calls[target] += 1
    return found


def warps(architecture, registers, threads, shared):
    result = occupancy.compute(archspec.lookup(architecture), registers, threads, 0, shared)
    return result.active_warps, result.max_warps


def measure(cubin):
    architecture = re.search(r"sm_\d+", cubin).group(0)
    used, code = resources(cubin), instructions(cubin)
    report = json.loads(run("cuxray", "report", cubin, "--fast", "--no-cache", "--json"))
    readable = demangle(list(used))
    kernels = {}
    for unit in report["units"][0]["kernels"]:
        name = unit["name"]
        groups, calls = code[name]
        known = describe(readable[name])
        # A planted kernel is launched with the block that its bounds allow.
        kernel = known or Kernel(readable[name], unit["occupancy"]["threads_per_block"], 0, False)
        figures = used[name]
        # Not cuobjdump's: from 10.0 on it adds what the system keeps for itself in every block.
        shared = unit["resources"]["smem_static"] + kernel.shared
        active, most = warps(architecture, figures["registers"], kernel.threads, shared)
        kernels[kernel.name] = dict(
            figures, described=known is not None, threads=kernel.threads, tensor=kernel.tensor,
            bound=unit["occupancy"]["threads_per_block"],
            shared=shared, warps=active, most_warps=most,
            spills=unit["spills"]["store_bytes"] + unit["spills"]["load_bytes"],
            banks=unit["access"]["worst_bank_conflict_ways"] or 1,
            conflicts=["%s:%d" % (site["file"].split("/")[-1], site["line"])
                       for site in unit["access"]["by_site"]
                       if site["space"] == "shared" and (site["conflict_ways"] or 1) > 1],
            decided=unit["access"]["analyzed_count"], undecided=unit["access"]["unanalyzed_count"],
            instructions=dict(groups), calls=dict(calls))
    if set(code) != set(used) or len(kernels) != len(used):
        sys.exit("%s: the tools do not find the same kernels" % cubin)
    return {"architecture": architecture, "kernels": kernels}


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        json.dump(measure(sys.argv[1]), out, indent=1)
