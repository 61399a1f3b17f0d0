"""docs/kernel-resources.md: the committed table of what each kernel takes."""

from kernel_names import in_order

INTRODUCTION = """\
# What the kernels take

Written by `make static-gates UPDATE=1` from what nvcc {nvcc} emits; `make static-gates` fails where
it is no longer true. Read without a GPU: registers from `cuobjdump --dump-resource-usage`,
occupancy and bank conflicts from cuxray. Threads and shared memory (bytes) are those of the largest
block that a launcher asks for. Numbers in names: rows x columns of a tile, keys of attention, most
numbers of a row.

Cells: registers a thread / warps that a multiprocessor holds at once, of
{most}.

In all {kernels} kernels for all {count} architectures: stack {stack} bytes, local memory {local},
spills {spills}.
Banks: how many lanes meet in one at worst, where cuxray can tell ({decided} of {accesses} accesses
to shared and global memory; loads of matrices it cannot, and the emulator counts those). bf16 does
not run on 7.5.

"""


def text(measured, nvcc):
    """The whole file, from {architecture: {kernel: figures}}."""
    figures = [kernel for kernels in measured.values() for kernel in kernels.values()]
    total = {key: sum(figure[key] for figure in figures)
             for key in ("stack", "local", "spills", "decided", "undecided")}
    most = ", ".join("%d on %s" % (next(iter(kernels.values()))["most_warps"], dotted(name))
                     for name, kernels in measured.items())
    first = next(iter(measured.values()))
    lines = [INTRODUCTION.format(
        nvcc=nvcc, most=most, kernels=len(first), count=len(measured), stack=total["stack"],
        local=total["local"], spills=total["spills"], decided=total["decided"],
        accesses=total["decided"] + total["undecided"])]
    lines.append("| kernel | threads | shared | banks | %s |\n"
                 % " | ".join(dotted(name) for name in measured))
    lines.append("|---|--:|--:|--:|" + "--:|" * len(measured) + "\n")
    for name in sorted(first, key=in_order):
        rows = [kernels[name] for kernels in measured.values()]
        cells = [name, str(rows[0]["threads"]), str(max(row["shared"] for row in rows)),
                 str(max(row["banks"] for row in rows))]
        cells += ["%d / %d" % (row["registers"], row["warps"]) for row in rows]
        lines.append("| %s |\n" % " | ".join(cells))
    return "".join(lines)


def dotted(architecture):
    """sm_120: 12.0"""
    number = architecture[3:]
    return "%s.%s" % (number[:-1], number[-1])
