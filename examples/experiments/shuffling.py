#!/usr/bin/env python3
"""Accuracy against the exchanged fraction Q and the number of workers M.

    examples/experiments/shuffling.py [--quick] [--seeds N] [--workers 8,64,256,1024] [--fractions 0,0.1,...] [--out FOLDER]

On Fashion-MNIST (`paradl data get fashion-mnist`) with three convolutions, or CIFAR-10 with a small residual network. Workers are logical: one
process stands for all M, with batch-norm statistics for each, and has the numbers of M ranks. The first partition is random or sorted by class;
the second makes local shuffling fail visibly. Prints a table and writes one plot for each partition.
"""
import argparse
import os

import runs

MODELS = {"fashion-mnist": "bn-small", "cifar10": "resnet-cifar", "synthetic": "bn-small"}
FRACTIONS = [0, 0.01, 0.03, 0.1, 0.3, 1]


def options(given, workers, partition, fraction, seed):
    shuffle = "global" if fraction is None else "local" if fraction == 0 else f"partial:{fraction:g}"
    partitions = [] if fraction is None else ["--partition", partition]  # in global order nobody has one
    return ["--model", runs.model(MODELS[given.data]), *given.source, "--epochs", str(given.epochs), "--batch",
            str(given.batch), "--lr", f"{given.lr:g}", "--schedule", "cosine", "--weight-decay", "5e-4", "--workers", str(workers),
            "--shuffle", shuffle, *partitions, "--seed", str(seed)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="M = 64, sorted, Q = 0, 0.1 and 0.3 only")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", default="8,64,256,1024")
    parser.add_argument("--fractions", default=",".join(map(str, FRACTIONS)), help="that change hands, 0 for local; global is always there")
    parser.add_argument("--partitions", default="random,sorted")
    parser.add_argument("--subset", type=int, help="so many samples of every class instead of all")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--data", default="fashion-mnist", choices=list(MODELS))
    parser.add_argument("--samples", type=int, help="of --data synthetic")
    parser.add_argument("--batch", type=int, help="the same for all numbers of workers: else 1024, with --quick 512")
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--threads", type=int, help="of each run; else the cores divided by --parallel")
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", default="results/shuffling")
    given = parser.parse_args()
    given.batch = given.batch or (512 if given.quick else 1024)
    workers = [64] if given.quick else [int(word) for word in given.workers.split(",")]
    fractions = [None, 0, 0.1, 0.3] if given.quick else [None, *(float(word) for word in given.fractions.split(","))]
    given.source = runs.data(given)
    if given.subset:
        given.source = ["--data", runs.subset(given.data, os.path.join(given.out, f"{given.data}-{given.subset}"), [given.subset] * 10, 250)]
    partitions = ["sorted"] if given.quick else given.partitions.split(",")
    jobs = {(partition, count, "global" if fraction is None else fraction, seed):
            options(given, count, partition, fraction, seed)
            for seed in range(1, given.seeds + 1) for partition in partitions for count in workers for fraction in fractions}
    done = runs.Runs(given.out, given.parallel, given.threads).all(jobs)
    for partition in partitions:
        report(given, done, partition, workers, ["global" if f is None else f for f in fractions])


def report(given, done, partition, workers, fractions):
    seeds = range(1, given.seeds + 1)

    def accuracies(count, fraction):
        return [100 * done[partition, count, fraction, seed][-1]["valid_accuracy"] for seed in seeds]

    print(f"\n{partition} partition, {given.epochs} epochs, batch {given.batch}, {given.seeds} seeds: accuracy in %")
    rows = []
    for count in workers:
        reference = runs.mean(accuracies(count, "global"))
        enough = next((f"{fraction:g}" for fraction in fractions[1:]
                       if runs.mean(accuracies(count, fraction)) >= reference - 0.5), "-")
        rows.append([f"M {count}", *(f"{runs.mean(accuracies(count, f)):.2f} ± {runs.deviation(accuracies(count, f)):.2f}"
                                     for f in fractions), enough])
    runs.table(["", *("global" if f == "global" else "local" if f == 0 else f"Q {f:g}" for f in fractions),
                "least Q within 0.5"], rows)
    series = [(f"M {count}", [(place, runs.mean(accuracies(count, fraction)), runs.deviation(accuracies(count, fraction)))
                              for place, fraction in enumerate([*fractions[1:], "global"])]) for count in workers]
    runs.plot(os.path.join(given.out, f"accuracy-{partition}.svg"),
              f"{given.data}, {partition} first partition", "exchanged fraction Q", "accuracy in %", series,
              ["local" if f == 0 else f"{f:g}" for f in fractions[1:]] + ["global"])


if __name__ == "__main__":
    main()
