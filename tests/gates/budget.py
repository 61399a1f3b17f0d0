"""The budgets: one line a kernel, in tests/gates/budget.txt. Upper bounds, but for warps."""

from kernel_names import in_order

HEADER = """\
# What each kernel may take: upper bounds, as make static-gates checks them; UPDATE=1 writes this
# file. shared: bytes of the largest block, static and dynamic. banks: how many lanes may meet in a
# bank at worst. Then, for each architecture, registers a thread : warps a multiprocessor must hold.
"""


def read(path):
    """{kernel: {"shared", "banks", "sm_75": (registers, warps), ...}}; architectures in order"""
    budget, architectures = {}, []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            fields = [field.strip() for field in line.split("|")]
            if line.startswith("#") or len(fields) < 4:
                continue
            if fields[0] == "kernel":
                architectures = fields[3:]
                continue
            entry = {"shared": int(fields[1]), "banks": int(fields[2])}
            for architecture, cell in zip(architectures, fields[3:]):
                entry[architecture] = tuple(int(number) for number in cell.split(":"))
            budget[fields[0]] = entry
    return budget


def of(measured):
    """The budget that measured kernels just keep."""
    budget = {}
    for architecture, kernels in measured.items():
        for name, kernel in kernels.items():
            entry = budget.setdefault(name, {"shared": 0, "banks": 1})
            entry["shared"] = max(entry["shared"], kernel["shared"])
            entry["banks"] = max(entry["banks"], kernel["banks"])
            entry[architecture] = (kernel["registers"], kernel["warps"])
    return budget


def write(path, budget, architectures):
    with open(path, "w", encoding="utf-8") as out:
        out.write(HEADER)
        cells = ["%-27s" % "kernel", "%6s" % "shared", "%5s" % "banks"]
        out.write("|".join(cells + ["%7s" % a for a in architectures]) + "\n")
        for name in sorted(budget, key=in_order):
            entry = budget[name]
            cells = ["%-27s" % name, "%6d" % entry["shared"], "%5d" % entry["banks"]]
            out.write("|".join(cells + ["%7s" % ("%d:%d" % entry[a]) for a in architectures])
                      + "\n")
