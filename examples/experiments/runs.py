"""Runs of `paradl train` for an experiment: several at a time, each once, with what their logs say.

A run that has ended is not repeated: its log lies in the experiment's folder under a name made of its options.
"""
import concurrent.futures
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys


def find_paradl():
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.join(here, "..", "..", "build", "paradl")
    program = os.environ.get("PARADL") or (built if os.path.exists(built) else shutil.which("paradl"))
    if not program:
        sys.exit("build paradl first (make), or name the program in PARADL")
    return program


def model(name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", name + ".yaml")


def data(given):
    return ["--data", given.data, *(["--samples", str(given.samples)] if given.samples else [])]


def _numbers(classes, wanted):
    """The first wanted[c] samples of every class c."""
    left, kept = list(wanted), []
    for number, label in enumerate(classes):
        if label < len(left) and left[label] > 0:
            left[label] -= 1
            kept.append(number)
    return kept


def _read(path, name):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        sys.exit(f"{path} is not there: get it with `paradl data get {name}`")


def subset(name, folder, counts, tests):
    """A built-in set cut down: the first counts[c] samples of every class c, and `tests` of each that validate."""
    home = os.path.join(os.environ.get("PARADL_DATA") or os.path.join(os.path.expanduser("~"), ".cache", "paradl"), name)
    parts, tests = {}, [tests] * len(counts)
    if name == "cifar10":
        record = 3073  # a label and 32 x 32 pixels of three colours
        for sources, target, wanted in (([f"data_batch_{n}.bin" for n in range(1, 6)], "data_batch_1.bin", counts),
                                        (["test_batch.bin"], "test_batch.bin", tests)):
            text = b"".join(_read(os.path.join(home, source), name) for source in sources)
            parts[target] = b"".join(text[i * record:(i + 1) * record] for i in _numbers(text[::record], wanted))
    else:
        for split, wanted in ("train", counts), ("t10k", tests):
            images, labels = (f"{split}-{what}-ubyte" for what in ("images-idx3", "labels-idx1"))
            pixels, classes = _read(os.path.join(home, images), name), _read(os.path.join(home, labels), name)[8:]
            size, kept = (len(pixels) - 16) // len(classes), _numbers(classes, wanted)
            count = len(kept).to_bytes(4, "big")
            parts[images] = pixels[:4] + count + pixels[8:16] + b"".join(pixels[16 + i * size:16 + (i + 1) * size] for i in kept)
            parts[labels] = bytes([0, 0, 8, 1]) + count + bytes(classes[i] for i in kept)
    os.makedirs(folder, exist_ok=True)
    for file, text in parts.items():
        with open(os.path.join(folder, file), "wb") as out:
            out.write(text)
    return folder


def ask(arguments):
    """What the command answers with --json."""
    return json.loads(subprocess.run([find_paradl(), *arguments], check=True, capture_output=True, text=True).stdout)


class Runs:
    def __init__(self, folder, parallel, threads=None):
        self.folder, self.parallel, self.program = folder, parallel, find_paradl()
        self.threads = threads or max(1, (os.cpu_count() or 1) // parallel)
        os.makedirs(folder, exist_ok=True)

    def _log(self, options):
        return os.path.join(self.folder, hashlib.sha256(" ".join(options).encode()).hexdigest()[:16] + ".jsonl")

    def _epochs(self, options):
        with open(self._log(options)) as lines:
            return [line for line in map(json.loads, lines) if "train_loss" in line]

    def summary(self, options):
        """The last line of a run's log."""
        with open(self._log(options)) as lines:
            return json.loads(lines.readlines()[-1])["summary"]

    def _run(self, options):
        log = self._log(options)
        if os.path.exists(log):
            return self._epochs(options)
        command = [self.program, "train", *options, "--threads", str(self.threads), "--quiet", "--log", log + ".part"]
        result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if result.returncode:
            raise RuntimeError(" ".join(command) + "\n" + result.stderr.strip())
        os.rename(log + ".part", log)
        return self._epochs(options)

    def all(self, jobs):
        """{key: options} -> {key: the epochs of its log}. Jobs with the same options are one run."""
        done, names = {}, {}
        for key, options in jobs.items():
            names.setdefault(tuple(options), []).append(key)
        with concurrent.futures.ThreadPoolExecutor(self.parallel) as pool:
            waiting = {pool.submit(self._run, list(options)): keys for options, keys in names.items()}
            for number, future in enumerate(concurrent.futures.as_completed(waiting), 1):
                keys = waiting[future]
                done.update((key, future.result()) for key in keys)
                print(f"[{number}/{len(waiting)}] {' '.join(map(str, keys[0]))}: accuracy "
                      f"{100 * future.result()[-1]['valid_accuracy']:.2f} %", file=sys.stderr)
        return done


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / max(1, len(values) - 1))


def table(head, rows):
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        cells = [str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


COLOURS = ["#0b6e99", "#c2410c", "#3f7d20", "#7c3aed", "#b91c1c", "#525252", "#a16207", "#0f766e", "#db2777"]


def _ticks(low, high):
    step = 10 ** math.floor(math.log10(max(high - low, 1e-9)))
    step = next(step * factor for factor in (0.1, 0.2, 0.5, 1, 2) if (high - low) / (step * factor) <= 8)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def plot(path, title, x_label, y_label, series, x_names=None):
    """series: [(name, [(x, y, error)])]; x_names gives places on the axis names instead of numbers."""
    width, height, left, right, top, bottom = 720, 440, 70, 170, 40, 55
    points = [point for _, line in series for point in line]
    xs = [x for x, _, _ in points]
    low, high = min(y - e for _, y, e in points), max(y + e for _, y, e in points)
    margin = 0.06 * max(high - low, 1e-9)
    low, high, x_low, x_high = low - margin, high + margin, min(xs), max(xs)
    span = max(x_high - x_low, 1e-9)

    def px(x):
        return left + (x - x_low) / span * (width - left - right)

    def py(y):
        return height - bottom - (y - low) / (high - low) * (height - top - bottom)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
           f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="22" font-size="15">{title}</text>',
           f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">{x_label}</text>',
           f'<text transform="translate(16 {(top + height - bottom) / 2}) rotate(-90)" '
           f'text-anchor="middle">{y_label}</text>']
    for tick in _ticks(low, high):
        out.append(f'<path d="M{left} {py(tick):.1f}H{width - right}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{py(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for place, name in (enumerate(x_names) if x_names else [(tick, f"{tick:g}") for tick in _ticks(x_low, x_high)]):
        out.append(f'<text x="{px(place):.1f}" y="{height - bottom + 18}" text-anchor="middle">{name}</text>')
    for number, (name, line) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        way = " ".join(f"{'L' if i else 'M'}{px(x):.1f} {py(y):.1f}" for i, (x, y, _) in enumerate(line))
        out.append(f'<path d="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y, error in line:
            out.append(f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="3" fill="{colour}"/>')
            if error > 0:
                out.append(f'<path d="M{px(x):.1f} {py(y - error):.1f}V{py(y + error):.1f}" stroke="{colour}"/>')
        out.append(f'<text x="{width - right + 12}" y="{top + 16 + 18 * number}" fill="{colour}">{name}</text>')
    out.append("</svg>")
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")
    print(f"plot: {path}")
