#!/usr/bin/env python3
"""Sample hiding against the baseline, the controls and its own components.

    examples/experiments/hiding.py [--data fashion-mnist|cifar10|both] [--device cuda] [--quick] [--seeds N] [--out FOLDER]

The same recipe with and without hiding: accuracy, hidden fraction, time saved beside the bound 2f/3 (unbiased: f), the same within a run
(against full epochs at the speed of its own steps), the saving that the cost model predicts from the baseline's own
times, and the one that `paradl plan` states for --system. Draws accuracy over time saved, accuracy by epoch and what is hidden.
--quick leaves out ablation and controls other than random hiding. On processors networks are small; with --device cuda it is
ResNet-18 on CIFAR-10 in bf16. Times are comparable only if nothing else runs on the same cores.
"""
import argparse
import os

import runs

RECIPES = {
    "fashion-mnist": ["--model", runs.model("resnet-fashion"), "--data", "fashion-mnist", "--augment", "flip"],
    "cifar10": ["--model", runs.model("resnet-cifar"), "--data", "cifar10", "--augment", "crop:4,flip"],
    "synthetic": ["--model", runs.model("resnet-fashion"), "--data", "synthetic", "--samples", "640"],
}
TRAINING = ["--batch", "64", "--lr", "0.1"]
GPU = ["--model", "resnet18-cifar", "--data", "cifar10", "--augment", "crop:4,flip,cutout:8"]
GPU_TRAINING = ["--batch", "512", "--lr", "0.4", "--warmup", "294", "--label-smoothing", "0.1", "--precision", "bf16", "--device", "cuda"]
# samples of training and validation
SAMPLES = {"fashion-mnist": (60000, 10000), "cifar10": (50000, 10000), "synthetic": (640, 640)}
EPOCHS = {"fashion-mnist": 8, "cifar10": 12, "synthetic": 3}
VARIANTS = {
    "baseline": [],
    "hiding": ["--hide", "0.3"],
    "random": ["--hide", "0.3", "--hide-method", "random"],
    "lowest only (HE)": ["--hide", "0.3", "--hide-without", "move-back,reduce,rate"],
    "HE + MB": ["--hide", "0.3", "--hide-without", "reduce,rate"],
    "HE + MB + RF": ["--hide", "0.3", "--hide-without", "rate"],
    "importance": ["--hide-method", "importance"],
    "selective": ["--hide-method", "selective", "--hide-beta", "0.43"],
    "unbiased": ["--hide", "0.3", "--hide-method", "unbiased"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="both", choices=["fashion-mnist", "cifar10", "synthetic", "both"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="these variants and the baseline, such as hiding,random")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="else 8 for fashion-mnist, 12 for cifar10, 16 on a GPU")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--system", help="whose projection is shown, else local and on a GPU none: `paradl calibrate` makes one")
    parser.add_argument("--parallel", type=int, help="runs at a time; else the cores, and 1 on a GPU")
    parser.add_argument("--threads", type=int, help="of each run; else the cores divided by --parallel")
    parser.add_argument("--out", default="results/hiding")
    given = parser.parse_args()
    gpu = given.device == "cuda"
    sets = ["cifar10"] if gpu else ["fashion-mnist", "cifar10"] if given.data == "both" else [given.data]
    if gpu:
        RECIPES["cifar10"], EPOCHS["cifar10"] = GPU, 16
    elif given.system is None:
        given.system = "local"
    variants = ["baseline", "hiding", "random"] if given.quick else list(VARIANTS)
    if given.only:
        variants = [variant for variant in VARIANTS if variant in ["baseline", *given.only.split(",")]]
    jobs = {(data, variant, seed):
            [*RECIPES[data], *(GPU_TRAINING if gpu else TRAINING), "--epochs", str(given.epochs or EPOCHS[data]), "--nesterov", "--weight-decay", "5e-4",
             "--schedule", "cosine", *VARIANTS[variant], "--seed", str(seed)]
            for data in sets for seed in range(1, given.seeds + 1) for variant in variants}
    done = runs.Runs(given.out, given.parallel or (1 if gpu else os.cpu_count() or 1), given.threads).all(jobs)
    for data in sets:
        report(given, done, data, variants)


def seconds(epochs):
    """The training time of a run, selection and refresh included, without validation."""
    return sum(epoch["epoch_s"] for epoch in epochs)


def saved_within(epochs, full_steps):
    """The saving against full epochs at the speed of the same run's own steps: free of what differs between runs."""
    step = sum(epoch["epoch_s"] - epoch.get("refresh_s", 0) for epoch in epochs) / sum(e["steps"] for e in epochs)
    return 1 - seconds(epochs) / (full_steps * len(epochs) * step)


def predicted(baseline, samples, hidden, refreshed):
    """What the cost model (docs/sample_hiding.md) expects to be saved, from the baseline alone: its validation says what
    a forward pass costs, its training what all of a sample costs."""
    forward = runs.mean([epoch["valid_s"] for epoch in baseline]) / samples[1]
    whole = runs.mean([epoch["epoch_s"] for epoch in baseline]) / samples[0]
    return hidden * (whole - forward) / whole if refreshed else hidden


def projected(given, data, hidden):
    """The saving that `paradl plan` states for the described machine, before anything has run."""
    model, name = RECIPES[data][1], RECIPES[data][3]
    if hidden == 0 or name == "synthetic" or given.system is None:
        return None
    batch, precision = ("512", "bf16") if given.device == "cuda" else ("64", "fp32")
    answer = runs.ask(["plan", "--model", model, "--data", name, "--system", given.system, "--pe", "1", "--batch", batch,
                       "--precision", precision, "--data-policy", f"global,hide:{max(0.3, hidden):.4f},mean:{hidden:.4f}", "--json"])
    return answer["candidates"][0]["data_policy"]["saving"]


def report(given, done, data, variants):
    seeds = range(1, given.seeds + 1)
    rows, curves, points = [], [], []
    base = {seed: done[data, "baseline", seed] for seed in seeds}
    for variant in variants:
        logs = [done[data, variant, seed] for seed in seeds]
        accuracy = [100 * log[-1]["valid_accuracy"] for log in logs]
        change = [value - 100 * base[seed][-1]["valid_accuracy"] for value, seed in zip(accuracy, seeds)]
        hidden = runs.mean([epoch.get("hidden_fraction", 0) for log in logs for epoch in log])
        saving = [1 - seconds(log) / seconds(base[seed]) for log, seed in zip(logs, seeds)]
        within = [saved_within(log, base[seed][0]["steps"]) for log, seed in zip(logs, seeds)]
        refreshed = variant != "unbiased"  # whose hidden samples are not pushed through the network
        bound = (2 / 3 if refreshed else 1) * hidden
        expected = runs.mean([predicted(base[seed], SAMPLES[data], hidden, refreshed) for seed in seeds])
        plan = projected(given, data, hidden) if refreshed else None
        share = f"{100 * runs.mean(saving) / bound:.0f} %" if bound > 0 else "-"
        rows.append([variant, f"{runs.mean(accuracy):.2f} ± {runs.deviation(accuracy):.2f}",
                     f"{runs.mean(change):+.2f} ± {runs.deviation(change):.2f}", f"{100 * hidden:.1f} %",
                     f"{100 * runs.mean(saving):.1f} ± {100 * runs.deviation(saving):.1f} %", f"{100 * runs.mean(within):.1f} %",
                     f"{100 * expected:.1f} %", "-" if plan is None else f"{100 * plan:.1f} %",
                     f"{100 * bound:.1f} %", share])
        curves.append((variant, [(number + 1, runs.mean([100 * log[number]["valid_accuracy"] for log in logs]), 0)
                                 for number in range(len(logs[0]))]))
        points.append((variant, [(100 * runs.mean(saving), runs.mean(accuracy), runs.deviation(accuracy))]))
    print(f"\n{data}: {len(base[1])} epochs, {given.seeds} seeds")
    runs.table(["", "accuracy %", "change", "hidden", "time saved", "within run", "by baseline", "by plan", "bound", "of the bound"], rows)
    runs.plot(os.path.join(given.out, f"accuracy-{data}.svg"), f"{data}: accuracy by epoch", "epoch", "accuracy in %",
              curves)
    runs.plot(os.path.join(given.out, f"saving-{data}.svg"), f"{data}: accuracy over time saved", "time saved in %", "accuracy in %",
              points)
    if "hiding" in variants:
        hidden = [(name, [(n + 1, 100 * runs.mean([done[data, "hiding", seed][n][field] for seed in seeds]), 0)
                          for n in range(len(base[1]))]) for name, field in (("hidden F*", "hidden_fraction"), ("most F", "hidden_most"))]
        runs.plot(os.path.join(given.out, f"hidden-{data}.svg"), f"{data}: hidden samples", "epoch", "hidden in %", hidden)


if __name__ == "__main__":
    main()
