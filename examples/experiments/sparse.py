#!/usr/bin/env python3
"""Training with sparse sums of gradients beside dense ones.

    examples/experiments/sparse.py [--only cifar10|gpt-char] [--ranks 4] [--densities 0.1,0.01,0.001] [--seeds N] [--out FOLDER]

A residual network of eight layers on CIFAR-10 (`paradl data get cifar10`) with SGD, and gpt-char-small on Tiny Shakespeare with AdamW:
the same updates with all gradients, and with the share of each density. Every rank is a process; more ranks than cores work, but say nothing
about time. Prints accuracy or loss at the end with deviations over seeds, and the bytes that rank 0 has sent for gradients, counted
message by message, beside those of the dense ring; draws both over the densities.
"""
import argparse
import os

import runs

TASKS = {
    "cifar10": {"options": ["--model", runs.model("resnet-cifar"), "--data", "cifar10", "--augment", "crop:4,flip", "--batch", "128",
                            "--lr", "0.1", "--weight-decay", "5e-4", "--schedule", "cosine"],
                "steps": 4000, "field": "valid_accuracy", "scale": 100, "name": "accuracy %"},
    "gpt-char": {"options": ["--model", "gpt-char-small", "--data", "tinyshakespeare", "--batch", "32", "--optimizer", "adamw", "--lr",
                             "0.001", "--warmup", "50", "--schedule", "cosine"],
                 "steps": 2000, "field": "valid_loss", "scale": 1, "name": "validation loss"},
    "synthetic": {"options": ["--model", "lenet", "--data", "synthetic", "--samples", "256", "--batch", "32", "--lr", "0.02"],
                  "steps": 8, "field": "valid_accuracy", "scale": 100, "name": "accuracy %"},
}


def options(given, task, density, seed):
    steps = given.steps or TASKS[task]["steps"]
    sparse = [] if density == 1 else ["--gradient-sparsity", f"{1 - density:.10g}"]
    return [*TASKS[task]["options"], "--steps", str(steps), "--valid-every", str(steps), "--pe", str(given.ranks), *sparse,
            "--seed", str(seed)]


def report(given, runner, done, task, densities):
    about, seeds = TASKS[task], range(1, given.seeds + 1)

    def ends(density):
        return [about["scale"] * done[task, density, seed][-1][about["field"]] for seed in seeds]

    def sent(density):
        return runs.mean([runner.summary(options(given, task, density, seed))["collectives"][0]["sent_bytes"] for seed in seeds])

    rows, points = [], []
    for place, density in enumerate(densities):
        change = [a - b for a, b in zip(ends(density), ends(1))]
        rows.append(["dense" if density == 1 else f"{100 * density:g} %", f"{runs.mean(ends(density)):.3f} ± {runs.deviation(ends(density)):.3f}",
                     f"{runs.mean(change):+.3f} ± {runs.deviation(change):.3f}", f"{sent(density) / 2**20:.2f} MiB", f"{sent(1) / sent(density):.1f}"])
        points.append((place, runs.mean(ends(density)), runs.deviation(ends(density))))
    print(f"\n{task}: {given.steps or about['steps']} updates, {given.ranks} ranks, {given.seeds} seeds")
    runs.table(["of the gradients", about["name"], "from dense", "rank 0 sent", "times less"], rows)
    runs.plot(os.path.join(given.out, f"{task}.svg"), f"{task}: sparse sums of gradients", "share of the gradients that is sent",
              about["name"], [(about["name"], points)], [row[0] for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(TASKS), help="else both; synthetic is for tests")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--densities", default="0.1,0.01,0.001")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="else 4000 for cifar10 and 2000 for gpt-char")
    parser.add_argument("--out", default="results/sparse")
    given = parser.parse_args()
    tasks = [given.only] if given.only else ["cifar10", "gpt-char"]
    densities = [1, *(float(word) for word in given.densities.split(","))]
    runner = runs.Runs(given.out, 1, 1)
    done = runner.all({(task, density, seed): options(given, task, density, seed)
                       for task in tasks for seed in range(1, given.seeds + 1) for density in densities})
    for task in tasks:
        report(given, runner, done, task, densities)


if __name__ == "__main__":
    main()
