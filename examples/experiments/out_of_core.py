#!/usr/bin/env python3
"""Rate against batch for every memory policy, under a limit of memory.

    examples/experiments/out_of_core.py --system SYSTEM [--model M] [--limit 24GiB] [--batches 256,512,...] [--out FOLDER]

Every batch is planned with blocks, and the same blocks then have one policy each: all kept, recomputed, swapped, and so on.
What does not fit has no point. Rates are projected on the system; with --device they are measured there, in --steps updates
each. rate.svg shows them, and a table is printed.
"""
import argparse
import json
import os
import re
import statistics
import subprocess

import runs

POLICIES = ["keep", "recompute_cheap", "recompute", "swap_cheap", "swap", "swap_boundary"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--system", default="h200-paradl", help="with a backend and a host_link")
    parser.add_argument("--limit", default="24GiB")
    parser.add_argument("--batches", default="256,512,768,1024,1280,1536")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--optimizer", default="momentum")
    parser.add_argument("--device", help="measured there: cpu or cuda")
    parser.add_argument("--data", default="synthetic")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", default="results/out_of_core")
    given = parser.parse_args()
    os.makedirs(given.out, exist_ok=True)
    batches = [int(batch) for batch in given.batches.split(",")]
    rates = {policy: [] for policy in [*POLICIES, "planned"]}
    for batch in batches:
        planned, blocks = plan(given, batch)
        for policy in rates:
            path = planned if policy == "planned" else alike(blocks, policy)
            rates[policy].append(batch / seconds(given, path) if path and fits(given, path) else None)
    runs.table(["batch", *rates], [[batch, *(f"{rates[p][k]:.0f}" if rates[p][k] else "-" for p in rates)]
                                   for k, batch in enumerate(batches)])
    series = [(policy, [(batch, rate, 0) for batch, rate in zip(batches, values) if rate]) for policy, values in rates.items()]
    runs.plot(os.path.join(given.out, "rate.svg"), f"{given.model} under {given.limit} on {given.system}",
              "samples of a batch", "samples/s", [(policy, points) for policy, points in series if points])


def ask(arguments):
    """What the command answers with --json, or None where it refuses."""
    done = subprocess.run([runs.find_paradl(), *arguments, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def plan(given, batch):
    """The plan of a batch, and one with blocks: where everything fits it is made for a limit that asks for some."""
    paths, limit = [], given.limit
    for name in "planned", "blocks":
        path = os.path.join(given.out, f"{name}-{batch}.yaml")
        found = ask(["plan", "--model", given.model, "--system", given.system, "-n", "1", "--batch", str(batch), "--strategy", "serial",
                     "--precision", given.precision, "--optimizer", given.optimizer, "--micro-batches", "1", "--max-memory", limit, "-o", path])
        paths.append(path if found and found["candidates"] and os.path.exists(path) else None)
        if paths[-1] is None or "policy:" in open(path).read():
            break
        limit = f"{0.7 * found['candidates'][0]['memory_bytes']:.0f}"
    return paths[0], paths[-1]


def alike(planned, policy):
    """The plan with one policy for all blocks, or for the layers where it has none."""
    if planned is None:
        return None
    text = re.sub(r"\n  optimizer: \w+|, optimizer: \w+", "", open(planned).read())
    if "policy:" in text:
        text = re.sub(r"policy: [^}]*", f"policy: {policy}", text)
    elif policy in ("keep", "recompute"):
        text = re.sub(r"recompute: \w+", f"recompute: {'none' if policy == 'keep' else 'full'}", text)
    else:
        return None
    path = re.sub("planned|blocks", policy, planned)
    with open(path, "w") as file:
        file.write(text)
    return path


def bytes_of(text):
    number, unit = re.fullmatch(r"([0-9.e+]+)\s*(\w*)", text).groups()
    return float(number) * {"": 1, "B": 1, "MB": 1e6, "GB": 1e9, "MiB": 2**20, "GiB": 2**30}[unit]


def fits(given, path):
    device = "dry:cuda" if given.system.startswith("h200") or given.device == "cuda" else "dry"
    listed = ask(["train", path, "--device", device, "--data", "synthetic", "--samples", "4096"])
    return listed is not None and listed["memory_bytes"] <= bytes_of(given.limit)


def seconds(given, path):
    if not given.device:
        return ask(["simulate", path, "--system", given.system])["projected"]["total_s"]
    log = path.replace(".yaml", ".jsonl")
    if os.path.exists(log):
        os.remove(log)
    ask(["train", path, "--device", given.device, "--data", given.data, "--steps", str(given.steps), "--no-valid", "--quiet", "--log", log])
    steps = [line["step_s"] for line in map(json.loads, open(log)) if "step_s" in line]
    return statistics.median(steps[len(steps) // 2:])


if __name__ == "__main__":
    main()
