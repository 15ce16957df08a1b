#!/usr/bin/env python3
"""Importance-paired exchange of samples beside global, local and partial shuffling, on partitions sorted by class.

    examples/experiments/pairing.py [--data fashion-mnist|cifar10] [--workers 16,64] [--fraction 0.1] [--seeds N] [--out FOLDER]

Workers are logical: one process stands for all of them and has the numbers of as many ranks. `paired` exchanges between the workers with the
highest and the lowest losses of the epoch before; `paired, top` sends any samples back; `paired, fixed` never draws pairs. Prints accuracy, the
variance of the workers' scores and the imbalance of labels at the end of the run beside those of its first exchange, and how many others a
worker has exchanged with; draws accuracy by epoch.
"""
import argparse
import os

import runs

RECIPES = {
    "fashion-mnist": ["--model", runs.model("bn-small")],
    "cifar10": ["--model", runs.model("resnet-cifar")],
    "synthetic": ["--model", runs.model("bn-small")],
}


def methods(fraction):
    return {"global": ["--shuffle", "global"], "local": ["--shuffle", "local"], "partial": ["--shuffle", f"partial:{fraction}"],
            "paired": ["--shuffle", f"paired:{fraction}"],
            "paired, top": ["--shuffle", f"paired:{fraction}", "--pair-samples", "top"],
            "paired, fixed": ["--shuffle", f"paired:{fraction}", "--random-match-every", "0"]}


def options(given, source, workers, method, seed):
    partition = [] if method == "global" else ["--partition", "sorted"]  # in global order nobody has one
    return [*RECIPES[given.data], *source, "--epochs", str(given.epochs), "--batch", str(given.batch), "--lr", str(given.lr), "--schedule",
            "cosine", "--weight-decay", "5e-4", "--workers", str(workers), *methods(given.fraction)[method], *partition,
            "--seed", str(seed)]


def figure(logs, field, place):
    values = [log[place][field] for log in logs if field in log[place]]
    return f"{runs.mean(values):.3g}" if values else "-"


def report(given, done, workers, names):
    seeds, rows, curves = range(1, given.seeds + 1), [], []
    for name in names:
        logs = [done[workers, name, seed] for seed in seeds]
        ends = [100 * log[-1]["valid_accuracy"] for log in logs]
        change = [end - 100 * done[workers, "global", seed][-1]["valid_accuracy"] for end, seed in zip(ends, seeds)]
        rows.append([name, f"{runs.mean(ends):.2f} ± {runs.deviation(ends):.2f}", f"{runs.mean(change):+.2f}",
                     figure(logs, "score_variance", 1), figure(logs, "score_variance", -1), figure(logs, "label_imbalance", 1),
                     figure(logs, "label_imbalance", -1), figure(logs, "partners", -1)])
        curves.append((name, [(n + 1, runs.mean([100 * log[n]["valid_accuracy"] for log in logs]),
                               runs.deviation([100 * log[n]["valid_accuracy"] for log in logs])) for n in range(len(logs[0]))]))
    print(f"\n{given.data}, {workers} workers, {given.epochs} epochs, a fraction of {given.fraction:g} exchanged, {given.seeds} seeds")
    runs.table(["", "accuracy %", "from global", "score variance", "at the end", "label imbalance", "at the end", "partners"], rows)
    runs.plot(os.path.join(given.out, f"{given.data}-{workers}.svg"), f"{given.data}, {workers} workers, sorted by class", "epoch",
              "accuracy in %", curves)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion-mnist", choices=list(RECIPES))
    parser.add_argument("--subset", type=int, help="so many samples of every class instead of all")
    parser.add_argument("--samples", type=int, help="of --data synthetic")
    parser.add_argument("--workers", default="16,64")
    parser.add_argument("--fraction", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", help="these methods and global, such as partial,paired")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--threads", type=int, help="of each run; else the cores divided by --parallel")
    parser.add_argument("--out", default="results/pairing")
    given = parser.parse_args()
    source = runs.data(given)
    if given.subset:
        source = ["--data", runs.subset(given.data, os.path.join(given.out, f"{given.data}-{given.subset}"), [given.subset] * 10, 250)]
    wanted = given.only.split(",") if given.only else list(methods(given.fraction))
    names = [name for name in methods(given.fraction) if name in ["global", *wanted]]
    workers = [int(word) for word in given.workers.split(",")]
    done = runs.Runs(given.out, given.parallel, given.threads).all(
        {(count, name, seed): options(given, source, count, name, seed)
         for count in workers for seed in range(1, given.seeds + 1) for name in names})
    for count in workers:
        report(given, done, count, names)


if __name__ == "__main__":
    main()
