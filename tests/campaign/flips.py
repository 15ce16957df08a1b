"""One flipped bit in every kind of file that paradl writes.

A checkpoint must never be taken for whole. A text file that people edit (plan, system, model) has no checksum: a flip may
turn it into another valid text. There the trial asks that the answer follows the text, or that the error names the file.
"""
import os
import shutil

import trial
from cases import Case

CHECKPOINTS, LOGS, TEXTS = 400, 40, 240
NAMES = ("serial", "serial, adamw, averaged weights", "hiding", "partial shuffling, 4 workers", "rounds, SEM")


def run(bench):
    for name in NAMES if bench.scale >= 0.2 else NAMES[:1]:
        flip_checkpoints(bench, Case(bench, name).measure())
    flip_logs(bench, Case(bench, "serial").measure())
    flip_texts(bench)


def flip(bench, path):
    """Flips one bit and says where."""
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        position, bit = bench.random.randrange(len(content)), bench.random.randrange(8)
        content[position] ^= 1 << bit
        file.seek(0)
        file.write(content)
    return f"bit {bit} of byte {position} of {len(content)}"


def flip_checkpoints(bench, case):
    """A run of two checkpoints; a bit of the last one is flipped; --resume must say so and go on from the one before."""
    row = bench.row(f"bit flips in a checkpoint: {case.name}")
    reference = os.path.join(bench.folder, "reference")
    last = os.path.basename(trial.checkpoints(os.path.join(reference, "ck"))[-1])
    files = sorted(os.listdir(os.path.join(reference, "ck", last)))
    for number in range(bench.count(CHECKPOINTS / len(NAMES))):
        folder, name = case.folder("flip"), files[number % len(files)]
        for entry in ("ck", "run.jsonl"):
            copy(os.path.join(reference, entry), os.path.join(folder, entry))
        where = flip(bench, os.path.join(folder, "ck", last, name))
        try:
            job = trial.Job(case.command("--resume"), folder)
            status = job.wait()
            if last not in job.messages():
                raise trial.Lost(f"not noticed by --resume: status {status}, {job.messages()}")
            row.add(trial.outcome(job, status, lambda: case.check(folder)))
        except trial.Lost as reason:
            bench.lost(row, f"{name}, {where}: {reason}", folder)


def copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def flip_logs(bench, case):
    """A damaged log does not keep a run from going on."""
    row = bench.row("bit flips in the log")
    for _ in range(bench.count(LOGS)):
        folder = case.folder("flip")
        half = [*case.command(), "--steps", "20"]
        job = trial.Job(half, folder)
        try:
            if job.wait() != 0:
                raise trial.Lost(f"half of a run fails: {job.messages()}")
            flip(bench, os.path.join(folder, "run.jsonl"))
            job = trial.Job(case.command("--resume"), folder)
            status = job.wait()
            row.add(trial.outcome(job, status, lambda: case.check_result(folder)))
        except trial.Lost as reason:
            bench.lost(row, str(reason), folder)


def flip_texts(bench):
    folder = bench.scratch("texts")
    ask(bench, folder, "plan", "--model", "lenet", "--system", "local", "--pe", "2", "--batch", "32", "-o", "plan.yaml")
    share = os.environ.get("PARADL_SHARE") or os.path.join(os.path.dirname(__file__), "..", "..", "share")
    shutil.copy(os.path.join(share, "systems", "selene.yaml"), os.path.join(folder, "system.yaml"))
    shutil.copy(os.path.join(share, "models", "lenet.yaml"), os.path.join(folder, "model.yaml"))
    readers = {
        "plan.yaml": ["simulate", "plan.yaml"],
        "system.yaml": ["plan", "--model", "lenet", "--system", "./system.yaml", "--pe", "8", "--batch", "64"],
        "model.yaml": ["plan", "--model", "./model.yaml", "--system", "selene", "--pe", "8", "--batch", "64"],
    }
    for name, command in readers.items():
        row = bench.row(f"bit flips in a text: {name}")
        row.remark = "survived: still a valid text"
        whole = open(os.path.join(folder, name), "rb").read()
        for _ in range(bench.count(TEXTS / len(readers))):
            where = flip(bench, os.path.join(folder, name))
            job = trial.Job([bench.paradl, *command], folder)
            try:
                row.add(trial.outcome(job, job.wait()))
            except trial.Lost as reason:
                bench.lost(row, f"{where}: {reason}", folder)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(whole)


def ask(bench, folder, *arguments):
    job = trial.Job([bench.paradl, *arguments], folder)
    if job.wait() != 0:
        raise SystemExit(f"campaign: paradl {' '.join(arguments)}: {job.messages()}")
