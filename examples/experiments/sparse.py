#!/usr/bin/env python3
"""Training with sparse sums of gradients beside dense ones.

    examples/experiments/sparse.py [--only cifar10|gpt-char] [--ranks 4] [--densities 0.1,0.01,0.001] [--seeds N] [--device cuda] [--out FOLDER]

A residual network of eight layers on CIFAR-10 (`paradl data get cifar10`) with SGD, and gpt-char-small on Tiny Shakespeare with AdamW:
the same updates with all gradients, and with the share of each density: as it is, and corrected as the literature has it, with a warm-up over a tenth
of the updates and, of SGD, momentum that ranks apply before they choose. Every rank is a process; more ranks than cores or GPUs work, but say nothing
about time. Prints accuracy or loss at the end with deviations over seeds, and the bytes that rank 0 has sent for gradients, counted
message by message, beside those of the dense ring; draws both over the densities.
"""
import argparse
import os

import runs

TASKS = {
    "cifar10": {"options": ["--model", runs.model("resnet-cifar"), "--data", "cifar10", "--augment", "crop:4,flip", "--batch", "128",
                            "--lr", "0.1", "--weight-decay", "5e-4", "--schedule", "cosine"],
                "steps": 4000, "momentum": True, "field": "valid_accuracy", "scale": 100, "name": "accuracy %"},
    "gpt-char": {"options": ["--model", "gpt-char-small", "--data", "tinyshakespeare", "--batch", "32", "--optimizer", "adamw", "--lr",
                             "0.001", "--warmup", "50", "--schedule", "cosine"],
                 "steps": 2000, "momentum": False, "field": "valid_loss", "scale": 1, "name": "validation loss"},
    "synthetic": {"options": ["--model", "lenet", "--data", "synthetic", "--samples", "256", "--batch", "32", "--lr", "0.02"],
                  "steps": 8, "momentum": True, "field": "valid_accuracy", "scale": 100, "name": "accuracy %"},
}


def options(given, task, way, seed):
    steps, (density, corrected) = given.steps or TASKS[task]["steps"], way
    sparse = [] if density == 1 else ["--gradient-sparsity", f"{1 - density:.10g}"]
    if corrected:
        sparse += ["--sparse-warmup", str(steps // 10), *(["--sparse-momentum", "local"] if TASKS[task]["momentum"] else [])]
    return [*TASKS[task]["options"], "--steps", str(steps), "--valid-every", str(steps), "--pe", str(given.ranks), *sparse,
            *(["--device", given.device] if given.device != "cpu" else []), "--seed", str(seed)]


def name(way):
    return "dense" if way[0] == 1 else f"{100 * way[0]:g} %{', corrected' if way[1] else ''}"


def report(given, runner, done, task, ways):
    about, seeds, dense = TASKS[task], range(1, given.seeds + 1), ways[0]

    def ends(way):
        return [about["scale"] * done[task, name(way), seed][-1][about["field"]] for seed in seeds]

    def sent(way):
        return runs.mean([runner.summary(options(given, task, way, seed))["collectives"][0]["sent_bytes"] for seed in seeds])

    rows, lines = [], {False: [], True: []}
    for way in ways:
        change = [a - b for a, b in zip(ends(way), ends(dense))]
        rows.append([name(way), f"{runs.mean(ends(way)):.3f} ± {runs.deviation(ends(way)):.3f}",
                     f"{runs.mean(change):+.3f} ± {runs.deviation(change):.3f}", f"{sent(way) / 2**20:.2f} MiB", f"{sent(dense) / sent(way):.1f}"])
        for corrected in ([False, True] if way == dense else [way[1]]):
            lines[corrected].append((len(lines[corrected]), runs.mean(ends(way)), runs.deviation(ends(way))))
    print(f"\n{task}: {given.steps or about['steps']} updates, {given.ranks} ranks, {given.seeds} seeds")
    runs.table(["of the gradients", about["name"], "from dense", "rank 0 sent", "times less"], rows)
    runs.plot(os.path.join(given.out, f"{task}.svg"), f"{task}: sparse sums of gradients", "share of the gradients that is sent",
              about["name"], [("as it is", lines[False]), ("corrected", lines[True])], [name(way) for way in ways if not way[1]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(TASKS), help="else both; synthetic is for tests")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--densities", default="0.1,0.01,0.001")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="else 4000 for cifar10 and 2000 for gpt-char")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", default="results/sparse")
    given = parser.parse_args()
    tasks = [given.only] if given.only else ["cifar10", "gpt-char"]
    ways = [(1, False), *((float(word), corrected) for word in given.densities.split(",") for corrected in (False, True))]
    runner = runs.Runs(given.out, 1, 1)
    done = runner.all({(task, name(way), seed): options(given, task, way, seed)
                       for task in tasks for seed in range(1, given.seeds + 1) for way in ways})
    for task in tasks:
        report(given, runner, done, task, ways)


if __name__ == "__main__":
    main()
