"""What the gates know of the kernels: readable names, the largest launch, and which must use tensor
cores. A kernel that is not described here fails the gates.
"""
import re
import subprocess
from collections import namedtuple

# threads and dynamic shared memory (bytes) of the largest block that the launcher asks for;
# tensor: it multiplies 16-bit matrices, so that it must use tensor cores, ldmatrix and, from 8.0
# on, asynchronous copies.
Kernel = namedtuple("Kernel", "name threads shared tensor")

NUMBERS = {"float": "f32", "__half": "f16", "__nv_bfloat16": "bf16"}
EPILOGUES = {"0": "bias", "1": "quick gelu", "2": "gelu"}
WIDTHS = {"1": 128, "4": 512, "6": 768, "8": 1024, "16": 2048}  # row_norm.cuh: numbers of a row
SOURCES = {"byte": "bytes", "float": "floats"}


def demangle(names):
    """{mangled: demangled without arguments}"""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout.splitlines()
    return {mangled: re.sub(r"^void ", "", re.sub(r"\(.*", "", readable))
            for mangled, readable in zip(names, text)}


def left_and_epilogue(source, epilogue):
    """("product", "bias") of the template arguments row_source<...> and plain_epilogue<..., 0>."""
    if source.startswith("row_source"):
        number = re.match(r"plain_epilogue<\w+, (\d)>", epilogue)
        return "product", EPILOGUES[number.group(1)] if number else "residual"
    return "patches", SOURCES[source.split("_")[0]]


def in_order(name):
    """Sorts names with numbers as numbers."""
    return [(part.isdigit(), int(part) if part.isdigit() else part)
            for part in re.findall(r"\d+|\D+", name)]


def describe(demangled):
    """Kernel of a demangled name without arguments, or None."""
    match = re.match(r"product_kernel<tile_shape<(\d+), (\d+), (\d+), (\d+)>, (\w+), "
                     r"(\w+<\w+>), (.*) ?>$", demangled)
    if match:
        rows, columns, warps_m, warps_n = map(int, match.groups()[:4])
        kind, epilogue = left_and_epilogue(match.group(6), match.group(7))
        name = "%s %dx%d %s %s" % (kind, rows, columns, NUMBERS[match.group(5)], epilogue)
        return Kernel(name, 32 * warps_m * warps_n, 3 * (rows + columns) * 32 * 2, True)
    match = re.match(r"product_f32_kernel<(\w+<float>), (.*) ?>$", demangled)
    if match:
        kind, epilogue = left_and_epilogue(*match.groups())
        return Kernel("%s 64x64 f32 %s" % (kind, epilogue), 256, 2 * 64 * 17 * 4 + 128, False)
    match = re.match(r"attention_kernel<(\d+), (\w+)>$", demangled)
    if match:
        keys = int(match.group(1))
        return Kernel("attention %d %s" % (keys, NUMBERS[match.group(2)]), keys // 16 * 32,
                      3 * keys * 64 * 2, True)
    if demangled == "attention_f32_kernel":
        return Kernel("attention 80 f32", 128, 4 * (80 * (65 + 64) + 4 * (64 + 80)) + 4 * 128,
                      False)
    match = re.match(r"(layernorm|head)_kernel<(\d+), (\w+)>$", demangled)
    if match:
        is_head = match.group(1) == "head"
        name = "%s %d %s" % (match.group(1), WIDTHS[match.group(2)], NUMBERS[match.group(3)])
        return Kernel(name, 256 if is_head else 128, 2 * 2048 * 4 if is_head else 0, False)
    match = re.match(r"tokens_kernel<(\d+)>$", demangled)
    if match:
        return Kernel("tokens %d f32" % WIDTHS[match.group(1)], 128, 0, False)
    match = re.match(r"finish_kernel<(\w+), (\d)>$", demangled)
    if match:
        return Kernel("finish %s %s" % (NUMBERS[match.group(1)], EPILOGUES[match.group(2)]), 256, 0,
                      False)
    if demangled == "gather_kernel":
        return Kernel("gather", 256, 0, False)
    return None
