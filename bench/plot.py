#!/usr/bin/env python3
"""Draws what flatclip-bench and flatclip-stress write with --csv, as an SVG for the docs.

    plot.py throughput BENCH.csv OUT.svg    images a second by batch, a line for each device, precision
                                            and number of threads, or whose products
    plot.py memory STRESS.csv OUT.svg       engine, heap and resident memory by iteration
"""
import csv
import math
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 70, 180, 34, 48
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a")
POINTS = 400  # of a line: a longer one is thinned, its largest values kept


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def nice_step(span):
    """1, 2 or 5 times a power of ten, for about five steps."""
    raw = span / 5 or 1
    power = 10 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw)


def thin(points):
    """The largest value of every stretch: a peak must not vanish."""
    stretch = max(1, len(points) // POINTS)
    return [max(points[i:i + stretch], key=lambda p: p[1]) for i in range(0, len(points), stretch)]


class Chart:
    def __init__(self, title, x_name, y_name, lines, log_x=False):
        """lines: {name: [(x, y)]}"""
        self.lines, self.log_x = lines, log_x
        xs = [x for points in lines.values() for x, _ in points]
        self.x_low, self.x_high = min(xs), max(xs)
        self.step = nice_step(max(y for points in lines.values() for _, y in points))
        self.y_high = self.step * math.ceil(max(y for points in lines.values() for _, y in points) / self.step)
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                      'font-family="sans-serif" font-size="12" fill="#24292f">',
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
                      self.text(LEFT, 20, title, size=14),
                      self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_name, "middle"),
                      self.text(LEFT - 60, TOP - 4, y_name)]

    @staticmethod
    def text(x, y, words, anchor="start", size=12, colour="#24292f"):
        return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">'
                f"{escape(words)}</text>")

    def x(self, value):
        scale = math.log2 if self.log_x else float
        low, high = scale(self.x_low), scale(self.x_high)
        return LEFT + (scale(value) - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - value / self.y_high * (HEIGHT - TOP - BOTTOM)

    def axes(self, x_marks):
        for i in range(round(self.y_high / self.step) + 1):
            y = self.y(i * self.step)
            self.parts += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#d0d7de"/>',
                           self.text(LEFT - 8, y + 4, f"{i * self.step:g}", "end")]
        for mark in x_marks:
            self.parts.append(self.text(self.x(mark), HEIGHT - BOTTOM + 18, f"{mark:g}", "middle"))

    def draw(self):
        """The lines, their names at their ends, moved apart where they would meet."""
        ends = sorted((self.y(points[-1][1]), name) for name, points in self.lines.items())
        places, last = {}, -math.inf
        for y, name in ends:
            last = places[name] = max(y, last + 15)
        for colour, (name, points) in zip(COLOURS * 9, self.lines.items()):
            path = "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in thin(points))
            self.parts += [f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>',
                           self.text(WIDTH - RIGHT + 8, places[name] + 4, name, colour=colour)]
        return "\n".join(self.parts + ["</svg>", ""])


def throughput(rows):
    lines = {}
    for row in rows:
        name = f'{row["device"]}, {row["precision"]}, '
        if row["device"] == "cpu":
            name += f'{row["threads"]} thread{"s" * (row["threads"] != "1")}'
        else:
            name += "cuBLASLt" if "cuBLASLt" in row["backend"] else "own"
        lines.setdefault(name, []).append((int(row["batch"]), float(row["images_per_s"])))
    chart = Chart("Images a second by batch", "batch", "images/s", lines, log_x=True)
    chart.axes(sorted({x for points in lines.values() for x, _ in points}))
    return chart.draw()


def memory(rows):
    names = {"resident": "resident memory", "heap": "heap in use", "engine": "engine: weights, session"}
    if any(int(row.get("device_used", 0)) for row in rows):
        names["device_used"] = "device memory in use"
    lines = {name: [(int(row["iteration"]), int(row[key]) / 2**20) for row in rows] for key, name in names.items()}
    chart = Chart("Memory by iteration", "iteration", "MiB", lines)
    step = nice_step(len(rows))
    chart.axes([step * i for i in range(1, int(len(rows) / step) + 1)])
    return chart.draw()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("throughput", "memory"):
        sys.exit(__doc__.strip())
    drawn = globals()[sys.argv[1]](read(sys.argv[2]))
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        out.write(drawn)
