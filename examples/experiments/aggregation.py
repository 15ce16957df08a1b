#!/usr/bin/env python3
"""Ways to bring workers' models together (FedAvg, SEM, CADIS, FedDCT) over partitions of the samples.

    examples/experiments/aggregation.py [--quick] [--seeds N] [--only METHODS] [--parallel N] [--out FOLDER]

On a part of Fashion-MNIST (`paradl data get fashion-mnist`), 10 workers, LeNet, rounds of two local epochs:

    clusters  four classes, one a worker: 4, 4, 1 and 1 workers have each (cluster skew)
    shards    ten classes, two shards of the samples sorted by class for every worker
    random    ten classes, drawn

All methods have the same learning rate and make as many passes over the samples. Accuracy is that of the common model,
mean of the last three rounds, since it goes up and down from round to round where classes are few. Prints a table with
the difference from FedAvg of the same seed, and draws accuracy by round for each partition.
"""
import argparse
import os

import runs

METHODS = {
    "FedAvg": ["--aggregate", "local"],
    "SEM": ["--aggregate", "sem"],
    "CADIS": ["--aggregate", "cadis"],
    "CADIS, no distillation": ["--aggregate", "cadis", "--distill", "0"],
    "FedDCT": ["--aggregate", "feddct", "--local-epochs", "2"],
}
PARTITIONS = {"clusters": "sorted", "shards": "shards", "random": "random"}
WORKERS, PASSES, LAST = 10, 2, 3


def data(given, partition):
    """The training set of a partition: `given.samples` in all, classes 4 : 4 : 1 : 1 or ten alike."""
    if given.data == "synthetic":
        return ["--data", "synthetic", "--samples", str(given.samples)]
    tenth = given.samples // 10
    counts = [4 * tenth, 4 * tenth, tenth, tenth] if partition == "clusters" else [tenth] * 10
    name = "uneven" if partition == "clusters" else "even"
    return ["--data", runs.subset(given.data, os.path.join(given.out, f"{name}-{given.samples}"), counts, given.tests)]


def options(given, samples, partition, method, seed):
    return ["--model", "lenet", *samples, "--batch", str(16 * WORKERS), "--workers", str(WORKERS),
            "--partition", PARTITIONS[partition], "--epochs", str(PASSES * given.rounds), "--lr", str(given.lr), "--momentum",
            "0", *METHODS[method], "--seed", str(seed)]


def accuracies(log):
    return [100 * epoch["valid_accuracy"] for epoch in log]


def report(given, done, partition, methods):
    seeds = range(1, given.seeds + 1)
    last = {(method, seed): runs.mean(accuracies(done[partition, method, seed])[-LAST:])
            for method in methods for seed in seeds}
    rows, curves = [], []
    for method in methods:
        values = [last[method, seed] for seed in seeds]
        change = [last[method, seed] - last["FedAvg", seed] for seed in seeds]
        rows.append([method, f"{runs.mean(values):.1f} ± {runs.deviation(values):.1f}",
                     f"{runs.mean(change):+.1f} ± {runs.deviation(change):.1f}", f"{min(values):.1f}", f"{max(values):.1f}",
                     f"{sum(c > 0 for c in change)} of {given.seeds}"])
        logs = [accuracies(done[partition, method, seed]) for seed in seeds]
        curves.append((method, [(number + 1, runs.mean([log[number] for log in logs]),
                                 runs.deviation([log[number] for log in logs])) for number in range(len(logs[0]))]))
    print(f"\n{partition}: {given.rounds} rounds, {given.samples} samples, {given.seeds} seeds")
    runs.table(["", "accuracy %", "from FedAvg", "least", "most", "above FedAvg"], rows)
    runs.plot(os.path.join(given.out, f"accuracy-{partition}.svg"), f"{given.data}, {partition}", "round",
              "accuracy in %", curves)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first partition only, three rounds")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", help="these methods and FedAvg, such as SEM,CADIS")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--tests", type=int, default=250, help="samples of every class that validate")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--threads", type=int, help="of each run; else the cores divided by --parallel")
    parser.add_argument("--out", default="results/aggregation")
    given = parser.parse_args()
    if given.quick:
        given.rounds = min(given.rounds, LAST)
    wanted = given.only.split(",") if given.only else list(METHODS)
    methods = [method for method in METHODS if method in ["FedAvg", *wanted]]
    partitions = list(PARTITIONS)[:1] if given.quick else list(PARTITIONS)
    samples = {partition: data(given, partition) for partition in partitions}
    jobs = {(partition, method, seed): options(given, samples[partition], partition, method, seed)
            for partition in partitions for seed in range(1, given.seeds + 1) for method in methods}
    done = runs.Runs(given.out, given.parallel, given.threads).all(jobs)
    for partition in partitions:
        report(given, done, partition, methods)


if __name__ == "__main__":
    main()
