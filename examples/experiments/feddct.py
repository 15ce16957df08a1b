#!/usr/bin/env python3
"""FedDCT with its nets whole, and in stems and bodies on two ranks, beside the undivided network.

    examples/experiments/feddct.py [--model resnet-tiny] [--nets 4] [--rounds 6] [--seeds N] [--out FOLDER]

On a part of Fashion-MNIST (`paradl data get fashion-mnist`), 8 workers, drawn partitions. FedAvg trains the undivided network for as many passes over the
samples. Prints accuracy with deviations, what a rank holds besides the copies of weights for workers and clusters, and what the rank of the stems and
that of the bodies send each other in a step, as their programs count it; draws accuracy by round.
"""
import argparse
import os
import re
import subprocess

import runs

WORKERS = 8


def methods(given):
    divided = ["--aggregate", "feddct", "--nets", str(given.nets), "--local-epochs", "1"]
    return {"FedAvg, undivided": ["--aggregate", "local", "--local-epochs", "1", "--second-epochs", "0"],
            "FedDCT": divided, "FedDCT, two ranks": [*divided, "--strategy", "pipeline", "--pe", "2"]}


def options(given, source, method, seed):
    return ["--model", given.model, *source, "--batch", str(16 * WORKERS), "--workers", str(WORKERS), "--epochs", str(given.rounds),
            "--lr", str(given.lr), *methods(given)[method], "--seed", str(seed)]


def figures(given, source, method):
    """What the run says before it begins: MiB of its ranks, and MiB that a step sends between them. Of the undivided network, its program."""
    if method.startswith("FedAvg"):
        whole = runs.ask(["train", "--model", given.model, *source, "--batch", "16", "--device", "dry", "--threads", "1", "--json"])
        return f"{whole['memory_bytes'] / 2**20:.1f} MiB", "-"
    said = subprocess.run([runs.find_paradl(), "train", *options(given, source, method, 1), "--steps", "1", "--no-valid", "--threads", "1"],
                          check=True, capture_output=True, text=True)
    parts = re.search(r"holds ([\d.]+) MiB and that of the bodies ([\d.]+) MiB, and a step sends ([\d.]+) MiB", said.stderr)
    if parts:
        return f"{parts[1]} and {parts[2]} MiB", f"{1024 * float(parts[3]):.1f} KiB"
    return f"{given.nets} x {re.search(r'a device holds ([0-9.]+) MiB', said.stderr)[1]} MiB", "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet-tiny")
    parser.add_argument("--nets", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--samples", type=int, default=500, help="of every class; of --data synthetic, in all")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", default="results/feddct")
    given = parser.parse_args()
    source = ["--data", "synthetic", "--samples", str(given.samples)]
    if given.data != "synthetic":
        source = ["--data", runs.subset(given.data, os.path.join(given.out, f"{given.data}-{given.samples}"), [given.samples] * 10, 250)]
    names, seeds = list(methods(given)), range(1, given.seeds + 1)
    done = runs.Runs(given.out, 1, 1).all({(name, seed): options(given, source, name, seed) for seed in seeds for name in names})
    rows, curves = [], []
    for name in names:
        logs = [done[name, seed] for seed in seeds]
        ends = [100 * log[-1]["valid_accuracy"] for log in logs]
        rows.append([name, f"{runs.mean(ends):.2f} ± {runs.deviation(ends):.2f}", *figures(given, source, name)])
        curves.append((name, [(n + 1, runs.mean([100 * log[n]["valid_accuracy"] for log in logs]),
                               runs.deviation([100 * log[n]["valid_accuracy"] for log in logs])) for n in range(len(logs[0]))]))
    print(f"\n{given.model}, {given.nets} nets, {given.rounds} rounds, {given.seeds} seeds")
    runs.table(["", "accuracy %", "ranks hold", "sent in a step"], rows)
    runs.plot(os.path.join(given.out, "accuracy.svg"), f"{given.model} in {given.nets} nets", "round", "accuracy in %", curves)


if __name__ == "__main__":
    main()
