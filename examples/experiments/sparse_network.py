#!/usr/bin/env python3
"""Sparse allreduces on a network, with the index sets that ranks of a training really have sent.

    examples/experiments/sparse_network.py [--ranks 8,16,32] [--density 0.0078125] [--steps N] [--bytes 128MiB] [--out FOLDER]

Ranks train a small residual network with sparse sums of gradients. Their residuals in the checkpoint are zero where an element was sent in
the last update: the index sets of all ranks, repeated to the size of --bytes. `paradl simulate` then sends their messages flow by flow over
abci-v, beside random sets and beside sizes that are expected of independent ones. Prints the times, what the sparse multi-leader allreduce
saves against the pairwise exchange (C2 of docs/simulation.md), and how much of the elements the sum of all ranks has; draws the times.
"""
import argparse
import glob
import json
import os
import struct
import subprocess

import runs

ALGORITHMS = ["sparse_pairwise", "sparse_ring", "sparse_ring_ring"]


def residuals(folder, ranks):
    """What each rank had not sent yet after the last update."""
    path = sorted(glob.glob(os.path.join(folder, "step-*", "state.safetensors")))[-1]
    with open(path, "rb") as file:
        text = file.read()
    length = struct.unpack("<Q", text[:8])[0]
    begin, end = (8 + length + at for at in json.loads(text[8:8 + length])["sampling.residuals"]["data_offsets"])
    count = (end - begin) // 4 // ranks
    return [struct.unpack(f"<{count}f", text[begin + 4 * count * r:begin + 4 * count * (r + 1)]) for r in range(ranks)]


def train(given, ranks):
    """Index sets of a training, as a file for `paradl simulate`; the elements of the vector, and of the sets' union."""
    folder = os.path.join(given.out, f"{given.model}-{ranks}")
    if not glob.glob(os.path.join(folder, "step-*")):
        subprocess.run([runs.find_paradl(), "train", "--model", given.model, *runs.data(given), "--batch", str(8 * ranks), "--lr", "0.05", "--steps",
                        str(given.steps), "--no-valid", "--pe", str(ranks), "--gradient-sparsity", f"{1 - given.density:.10g}", "--checkpoint",
                        folder, "--threads", "1", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    left = residuals(folder, ranks)
    sets = [[i for i, value in enumerate(values) if value == 0] for values in left]
    path = os.path.join(given.out, f"sets-{ranks}.txt")
    with open(path, "w") as file:
        file.write(f"elements {len(left[0])}\n" + "".join(" ".join(map(str, one)) + "\n" for one in sets))
    return path, len(left[0]), len(set().union(*sets)), runs.mean([len(one) for one in sets])


def simulate(given, ranks, algorithm, kind, path):
    how = {"expected": ["--density", str(given.density)], "random": ["--density", str(given.density), "--index-sets", "random"],
           "trained": ["--index-sets", path]}[kind]
    return 1e3 * runs.ask(["simulate", "--topology", "abci-v", "--hosts", str(ranks), "--bytes", given.bytes, "--algorithm", algorithm,
                           *how, "--json"])["time_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="8,16,32")
    parser.add_argument("--density", type=float, default=1 / 128)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--bytes", default="128MiB")
    parser.add_argument("--model", default="resnet-tiny")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--samples", type=int, help="of --data synthetic")
    parser.add_argument("--out", default="results/sparse_network")
    given = parser.parse_args()
    os.makedirs(given.out, exist_ok=True)
    rows, series = [], []
    for ranks in map(int, given.ranks.split(",")):
        path, elements, union, kept = train(given, ranks)
        print(f"{ranks} ranks: {elements} elements, {100 * kept / elements:.2f} % kept by each, {100 * union / elements:.2f} % by any; "
              f"{100 * (1 - (1 - kept / elements) ** ranks):.2f} % if they were independent")
        for kind in ("expected", "random", "trained"):
            times = [simulate(given, ranks, algorithm, kind, path) for algorithm in ALGORITHMS]
            rows.append([f"{ranks} {kind}", *(f"{time:.3f}" for time in times), f"{100 * (1 - times[2] / times[0]):.1f} %"])
            series.append((f"{ranks} {kind}", [(place, time, 0) for place, time in enumerate(times)]))
    print(f"\nms on abci-v, {given.bytes}")
    runs.table(["ranks, index sets", *ALGORITHMS, "saved"], rows)
    runs.plot(os.path.join(given.out, "times.svg"), f"sparse allreduce of {given.bytes} on abci-v, flow by flow", "", "ms", series,
              ALGORITHMS)


if __name__ == "__main__":
    main()
