"""The runs that are disturbed: strategies, shuffling, hiding and rounds on 1 to 4 ranks, small enough to take a second."""
import os
import shutil

import trial

GPT = """paradl: model/1
name: gpt
extends: gpt2-124m
parameters: {layers: 2, hidden: 32, heads: 4, tokens: 26, vocabulary: 65, dropout: 0.1, bias: 1}
"""

LENET = ["--model", "lenet", "--data", "synthetic", "--samples", "320", "--batch", "32", "--lr", "0.02"]
TEXT = ["--model", "gpt.yaml", "--data", "synthetic", "--samples", "64", "--batch", "8", "--optimizer", "adamw",
        "--lr", "0.001"]
STEPS = ["--steps", "40", "--checkpoint-every", "3"]
ROUNDS = ["--epochs", "6", "--workers", "4", "--checkpoint-every", "2"]

CASES = {
    # name: (ranks, options)
    "serial": (1, [*LENET, *STEPS, "--augment", "crop:2,flip"]),
    "serial, adamw, averaged weights": (1, [*TEXT, *STEPS, "--ema", "0.9", "--clip", "1"]),
    "hiding": (1, [*LENET, "--epochs", "5", "--hide", "0.3", "--checkpoint-every", "3"]),
    "partial shuffling, 4 workers": (1, [*LENET, *STEPS, "--workers", "4", "--shuffle", "partial:0.25"]),
    "rounds, FedAvg": (1, [*LENET, *ROUNDS, "--aggregate", "local"]),
    "rounds, SEM": (1, [*LENET, *ROUNDS, "--aggregate", "sem"]),
    "rounds, CADIS": (1, [*LENET, *ROUNDS, "--aggregate", "cadis", "--partition", "sorted"]),
    "rounds, FedDCT": (1, ["--model", "resnet-tiny", "--data", "synthetic", "--samples", "64", "--batch", "16", "--lr", "0.02",
                           "--epochs", "4", "--workers", "4", "--checkpoint-every", "1", "--aggregate", "feddct",
                           "--nets", "2"]),
    "data": (2, [*LENET, *STEPS]),
    "data, zero1": (2, [*TEXT, *STEPS, "--sharding", "zero1"]),
    "data, zero3": (2, [*TEXT, *STEPS, "--sharding", "zero3"]),
    "data, bf16": (2, [*LENET, *STEPS, "--precision", "bf16"]),
    "spatial": (2, [*LENET, *STEPS, "--strategy", "spatial"]),
    "filter": (2, [*LENET, *STEPS, "--strategy", "filter"]),
    "channel": (2, [*LENET, *STEPS, "--strategy", "channel"]),
    "pipeline": (2, [*LENET, *STEPS, "--strategy", "pipeline", "--micro-batches", "4"]),
    "tensor": (2, [*TEXT, *STEPS, "--strategy", "tensor"]),
    "hiding, 2 ranks": (2, [*LENET, "--epochs", "4", "--hide", "0.3", "--checkpoint-every", "3"]),
    "partial shuffling, store in a folder": (2, [*LENET, *STEPS, "--shuffle", "partial:0.25", "--store", "."]),
    "paired exchange": (2, [*LENET, *STEPS, "--shuffle", "paired:0.25"]),
    "rounds, FedAvg, 2 ranks": (2, [*LENET, *ROUNDS, "--aggregate", "local"]),
    "data, 3 ranks": (3, [*LENET, *STEPS]),
    "spatial, 3 ranks": (3, [*LENET, *STEPS, "--strategy", "spatial", "--mesh", "spatial_0:3"]),
    "local shuffling, 4 ranks": (4, [*LENET, *STEPS, "--shuffle", "local", "--partition", "sorted"]),
    "data, zero2, 3 ranks": (3, [*TEXT, *STEPS, "--sharding", "zero2"]),
    "data, 4 ranks": (4, [*LENET, *STEPS]),
    "data+spatial": (4, [*LENET, *STEPS, "--strategy", "data+spatial", "--mesh", "data:2,spatial_0:2"]),
    "data+pipeline": (4, [*LENET, *STEPS, "--strategy", "data+pipeline", "--mesh", "pipeline:2,data:2",
                          "--micro-batches", "2"]),
    "data+tensor": (4, [*TEXT, *STEPS, "--strategy", "data+tensor", "--mesh", "data:2,tensor:2"]),
}


class Case:
    """One run, and the undisturbed result that it must come to whatever happens."""

    def __init__(self, bench, name):
        self.bench, self.name = bench, name
        self.ranks, self.options = CASES[name]
        self.seconds = self.reference = self.log = self.memory = None

    def command(self, *more):
        ranks = ["--pe", str(self.ranks)] if self.ranks > 1 else []
        return [self.bench.paradl, "train", *self.options, *ranks, "--threads", "1", "--checkpoint", "ck", "--log",
                "run.jsonl", "--quiet", *more]

    def folder(self, name):
        path = self.bench.scratch(name)
        with open(os.path.join(path, "gpt.yaml"), "w") as file:
            file.write(GPT)
        return path

    def measure(self):
        """The undisturbed run, twice: its second duration is without the cold start, and both must agree."""
        folder = self.folder("reference")
        for attempt in range(2):
            for name in ("ck", "run.jsonl"):
                remove(os.path.join(folder, name))
            start = trial.time.monotonic()
            job = trial.Job(self.command(), folder)
            if job.wait() != 0:
                raise trial.Lost(f"the undisturbed run fails: {job.messages()}")
            self.seconds = trial.time.monotonic() - start
            result, log = trial.result(folder), trial.log_lines(folder)
            if attempt and result != self.reference:
                raise trial.Lost("two undisturbed runs differ")
            self.reference, self.log = result, log
        return self

    def check(self, folder):
        """The run in `folder` has ended by itself: is everything as in the undisturbed one?"""
        self.check_result(folder)
        updates, epochs = trial.log_lines(folder)
        if updates != self.log[0]:
            raise trial.Lost(f"updates in the log differ: {first_difference(updates, self.log[0])}")
        if epochs != self.log[1]:
            raise trial.Lost(f"epochs in the log differ: {first_difference(epochs, self.log[1])}")
        left = trial.litter(folder)
        if left:
            raise trial.Lost(f"left behind: {' '.join(left)}")

    def check_result(self, folder):
        result = trial.result(folder)
        for name in sorted(set(result) | set(self.reference)):
            if result.get(name) != self.reference.get(name):
                raise trial.Lost(f"{name} differs from the undisturbed run's")

    def finish(self, folder):
        """Goes on to the end, undisturbed, and checks."""
        job = trial.Job(self.command("--resume"), folder)
        if job.wait() != 0:
            raise trial.Lost(f"does not go on: {job.messages()}")
        self.check(folder)


def first_difference(found, wanted):
    for index, (a, b) in enumerate(zip(found, wanted)):
        if a != b:
            return f"entry {index + 1} is {a}, not {b}"
    return f"{len(found)} entries, not {len(wanted)}"


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
