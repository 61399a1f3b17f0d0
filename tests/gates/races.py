"""Race-freedom of the kernels' PTX, decided by sentryward for all orders of threads at once.

One small launch a kernel, with more than one block and every branch: a stage of each buffer and one
more, rows and columns that do not fill a tile. Only the answer race_free passes.

sentryward wants plain parameters. Those that are structs are replaced by their fields, and pointers
are said to be aligned to 16 bytes, as launch.h requires. The rest is nvcc's text.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import time

from kernel_names import demangle, describe

TIMEOUT = 300  # seconds a kernel; the slowest takes 20 on a quiet core

# Structs as parameters: fields (type, offset).
ROWS = (("ptr", 0), ("u64", 8), ("u32", 16))
PIXELS = (("ptr", 0), ("u32", 8), ("u32", 12), ("u32", 16), ("u32", 20))
PLAIN = (("ptr", 0), ("u64", 8), ("ptr", 16))
PATCH = (("ptr", 0), ("u64", 8), ("ptr", 16), ("f32", 24), ("u32", 28))

PTX_TYPES = {"ptr": ".u64 .ptr .global .align 16", "u64": ".u64", "u32": ".u32", "f32": ".f32"}


class Launch:
    """grid, block, and one value a parameter: None for pointers, a number, or (struct, values)."""

    def __init__(self, grid, block, shared, *parameters):
        self.grid, self.block, self.shared = grid, block, shared
        self.parameters = parameters


def u64(value):
    return "u64", value


def u32(value):
    return "u32", value


POINTER = None


def product_launch(kernel, rows, columns):
    tile_rows, tile_columns = map(int, re.search(r"(\d+)x(\d+)", kernel.name).groups())
    k = 128 if kernel.tensor else 32
    blocks = (-(-columns // tile_columns), -(-rows // tile_rows), 1)
    return Launch(blocks, kernel.threads, kernel.shared,
                  (ROWS, (POINTER, u64(k), u32(rows))), POINTER,
                  (PLAIN, (POINTER, u64(columns + 8), POINTER)), u32(rows), u32(columns), u32(k))


def patches_launch(kernel):
    image, patch, batch, width = 8, 4, 17, 40  # 68 rows in two blocks; 3 * 4 * 4 of k are not zero
    grid = image // patch
    rows, k = batch * grid * grid, 128 if kernel.tensor else 48
    return Launch((1, 2, 1), kernel.threads, kernel.shared,
                  (PIXELS, (POINTER, u32(image), u32(patch), u32(grid), u32(rows))), POINTER,
                  (PATCH, (POINTER, u64(width), POINTER, ("f32", 0.00390625), u32(grid * grid))),
                  u32(rows), u32(width), u32(k))


def attention_launch(kernel):
    keys = int(kernel.name.split()[1])
    queries = keys - 14 if kernel.tensor else 5
    return Launch((2, 1, 1), kernel.threads, kernel.shared, POINTER, u64(384), POINTER, POINTER,
                  u64(384), POINTER, u64(128), u32(queries), u32(queries),
                  u32(1 if keys == 80 else 0))


def row_width(name):
    """A width for which a lane of the last vector has nothing, as has half of one more."""
    return int(name.split()[1]) - 28


def launch_of(kernel):
    """The small launch that decides for a kernel."""
    kind = kernel.name.split()[0]
    if kind == "product":
        return product_launch(kernel, *((130, 40) if "128x" in kernel.name else (70, 40)))
    if kind == "patches":
        return patches_launch(kernel)
    if kind == "attention":
        return attention_launch(kernel)
    if kind == "gather":
        return Launch((2, 1, 1), 256, 0, POINTER, u64(6144), POINTER, u64(6144), u32(3), u64(6144))
    if kind == "finish":
        return Launch((2, 1, 1), 256, 0, POINTER, u64(264), POINTER, u32(260))
    width = row_width(kernel.name)
    if kind == "layernorm":
        return Launch((2, 1, 1), 128, 0, POINTER, u64(width), POINTER, u64(width), POINTER,
                      POINTER, u32(7), u32(width))
    if kind == "tokens":
        return Launch((2, 1, 1), 128, 0, POINTER, u64(width), POINTER, POINTER, POINTER, POINTER,
                      u32(8), u32(4), u32(width))
    return Launch((2, 1, 1), 256, kernel.shared, POINTER, POINTER, u64(width), POINTER, POINTER,
                  POINTER, u32(width), u32(9), u32(1))


# -- The question as sentryward takes it -----------------------------------------------------------

def entries(ptx):
    """{mangled name: PTX of a file with this kernel alone}"""
    head = ptx[:ptx.index(".address_size 64") + len(".address_size 64")]
    shared = "\n".join(line for line in ptx.splitlines() if line.startswith(".extern"))
    return {match.group(1): "%s\n%s\n.visible %s" % (head, shared, match.group(0))
            for match in re.finditer(r"\.entry (\w+)\(.*?\n}\n", ptx, re.S)}


def split_struct(text, name, fields):
    """The PTX with the struct that is parameter name as one parameter a field."""
    declared = "".join("\t.param %s %s_at_%d,\n" % (PTX_TYPES[kind], name, offset)
                       for kind, offset in fields)
    text = re.sub(r"\t\.param \.align 8 \.b8 %s\[\d+\],\n" % name, lambda _: declared, text)

    def two_loads(match):
        kind, first, second, offset = match.groups()
        offset = int(offset or 0)
        return "".join("ld.param.%s %s, [%s_at_%d]; " % (kind, register, name, at)
                       for register, at in ((first, offset), (second, offset + 4)))

    text = re.sub(r"ld\.param\.v2\.(\w32)\s+\{(%%\w+), (%%\w+)\}, \[%s(?:\+(\d+))?\];" % name,
                  two_loads, text)
    return re.sub(r"\[%s(?:\+(\d+))?\]" % name,
                  lambda match: "[%s_at_%d]" % (name, int(match.group(1) or 0)), text)


def question(name, text, launch):
    """(PTX, input) for one kernel and launch."""
    arguments = []
    at = 0
    for index, parameter in enumerate(launch.parameters):
        values = (parameter,)
        if parameter and isinstance(parameter[0], tuple):
            fields, values = parameter
            text = split_struct(text, "%s_param_%d" % (name, index), fields)
        for value in values:
            if value:
                arguments.append({"parameter": at, "type": value[0], "value": value[1]})
            at += 1
    text = text.replace(".param .u64 .ptr .align 1 ", ".param .u64 .ptr .global .align 16 ")
    return text, {"schema": "spverify.kernel-input/v1", "entry": name,
                  "launch": {"grid_dim": list(launch.grid), "block_dim": [launch.block, 1, 1],
                             "dynamic_shared_bytes": launch.shared},
                  "arguments": arguments}


def decide(folder, label, name, text, launch):
    """(verdict, what it says beside, seconds)"""
    text, given = question(name, text, launch)
    path = os.path.join(folder, re.sub(r"\W+", "_", label))
    with open(path + ".ptx", "w", encoding="utf-8") as out:
        out.write(text)
    with open(path + ".json", "w", encoding="utf-8") as out:
        json.dump(given, out)
    started = time.time()
    try:
        result = subprocess.run(["sentryward", path + ".ptx", "--input", path + ".json",
                                 "--timeout", str(TIMEOUT)], capture_output=True, text=True,
                                timeout=TIMEOUT + 30)
        answer = json.loads(result.stdout)
    except subprocess.TimeoutExpired:
        return "timeout", "", time.time() - started
    except ValueError:
        return "no answer", result.stderr.strip()[-300:], time.time() - started
    said = answer.get("diagnostics") or [{}]
    words = " ".join(str(said[0].get(key, "")) for key in ("code", "message")).strip()
    return answer.get("result"), words[:200], time.time() - started


# Of planted/races.cu: what sentryward must answer.
PLANTED = {
    "sound": ("race_free", Launch((2, 1, 1), 128, 2048, POINTER, POINTER)),
    "wait_left_out": ("potential_race", Launch((2, 1, 1), 128, 2048, POINTER, POINTER)),
    "barrier_left_out": ("potential_race", Launch((2, 1, 1), 128, 2048, POINTER, POINTER)),
    "blocks_overlap": ("potential_race", Launch((2, 1, 1), 128, 0, POINTER, POINTER)),
    "barrier_of_some": ("not_wellsynced", Launch((2, 1, 1), 128, 0, POINTER, POINTER)),
    "refilled_early": ("potential_race", Launch((2, 1, 1), 128, 512, POINTER, POINTER, u32(3))),
}


def planted_questions(entry_texts):
    return [("planted " + name, name, entry_texts[name], launch, verdict)
            for name, (verdict, launch) in PLANTED.items()]


# Planted in kernels of ours: instructions that are left out of their PTX, all of a kind, so that a
# launch which never came to them would be noticed.
LEFT_OUT = {
    "product 64x32 f16 bias": (r"bar\.sync", r"cp\.async\.wait_group"),
    "product 64x64 f32 bias": (r"bar\.sync",),
    "patches 64x64 f16 bytes": (r"bar\.sync",),
    "attention 64 f16": (r"bar\.sync", r"cp\.async\.wait_group"),
    "attention 80 f32": (r"bar\.sync", r"bar\.warp\.sync"),
    "head 128 f32": (r"bar\.sync",),
}


def kernel_questions(entry_texts):
    readable = demangle(list(entry_texts))
    found = []
    for name, text in entry_texts.items():
        kernel = describe(readable[name])
        if not kernel:
            found.append((readable[name], name, text, None, "race_free"))
            continue
        found.append((kernel.name, name, text, launch_of(kernel), "race_free"))
        for instruction in LEFT_OUT.get(kernel.name, ()):
            label = "planted %s without %s" % (kernel.name, instruction.replace("\\", ""))
            found.append((label, name, re.sub(instruction + "[^;]*;", "", text),
                          launch_of(kernel), "potential_race"))
    return found


def without_type(label, name, text):
    """A kernel's PTX without its name and that of its 16-bit type: most kernels have a twin."""
    text = text.replace(name, "kernel").replace("bf16", "f16")
    return re.sub(r"\$L__BB\d+_", "L", text) + label.split()[0]


def check(sums, paths):
    """Asks for every kernel of the PTX files, and for the planted ones of races.ptx. What differs
    in the type of its 16-bit numbers alone is asked once."""
    questions = []
    for path in paths:
        with open(path, encoding="utf-8") as text:
            texts = entries(text.read())
        planted = os.path.basename(path) == "races.ptx"
        questions += planted_questions(texts) if planted else kernel_questions(texts)
    folder = os.path.join(os.path.dirname(paths[0]), "questions")
    os.makedirs(folder, exist_ok=True)
    # The longest first, so that no core waits for them at the end.
    missing = set(LEFT_OUT) - {label for label, *_ in questions}
    sums.check(not missing, "kernels to plant faults in: %s" % (", ".join(missing) or len(LEFT_OUT)))
    questions.sort(key=lambda q: -(q[3].block * q[3].grid[0] * q[3].grid[1] if q[3] else 0))
    asked = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for label, name, text, launch, _ in questions:
            key = without_type(label, name, text)
            if launch and key not in asked:
                asked[key] = label, pool.submit(decide, folder, label, name, text, launch)
        for label, name, text, launch, expected in questions:
            if not launch:
                sums.check(False, "sm_120 PTX, %s: not described in kernel_names.py" % label)
                continue
            first, answer = asked[without_type(label, name, text)]
            verdict, words, seconds = answer.result()
            how = "%.1f s" % seconds if first == label else "as " + first
            good = verdict == expected
            sums.check(good, "sm_120 PTX, %s: %s (%s)%s" % (
                label, verdict, how, "" if good else ", not %s. %s" % (expected, words)))
