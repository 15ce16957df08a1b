"""What the parts of the campaign share: starting a command, finding its ranks, ending it, judging what it left.

A trial ends in one of three ways. *survived*: the job, or its continuation, came to the result of the undisturbed run, bit by
bit. *detected*: paradl said in a line what is wrong and ended with status 1 or 2. *lost*: everything else, such as a crash, a
hang, another result, a process that stays behind, a log with holes.
"""
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

MARK = b"PARADL_CAMPAIGN_JOB"  # in the environment of every process of a job
LIMIT_S = 120  # a command that takes longer hangs: the longest takes a few seconds


class Lost(Exception):
    """A trial that went wrong, and how."""


class Row:
    """A line of the table."""

    def __init__(self, name):
        self.name, self.tried, self.survived, self.detected, self.lost, self.remark = name, 0, 0, 0, 0, ""

    def add(self, outcome, count=1):
        self.tried += count
        setattr(self, outcome, getattr(self, outcome) + count)


class Bench:
    """Where trials run and what became of them. `scale` is the part of a whole campaign that is wanted."""

    def __init__(self, paradl, folder, scale, seed):
        self.paradl, self.folder, self.scale = paradl, folder, scale
        self.random = random.Random(seed)
        self.rows, self.findings, self.kept = [], [], 0
        os.makedirs(folder, exist_ok=True)

    def count(self, whole):
        return max(1, round(whole * self.scale))

    def row(self, name):
        self.rows.append(Row(name))
        return self.rows[-1]

    def scratch(self, name):
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    def lost(self, row, text, folder=None, count=1):
        """Keeps the folder of a trial that was lost, so that somebody can look at it."""
        row.add("lost", count)
        if folder is not None and os.path.isdir(folder):
            self.kept += 1
            kept = os.path.join(self.folder, f"lost-{self.kept}")
            shutil.copytree(folder, kept, symlinks=True, dirs_exist_ok=True)
            text += f" (kept in {kept})"
        self.findings.append(f"{row.name}: {text}")
        print(f"LOST {row.name}: {text}", file=sys.stderr, flush=True)


# ---- a command and its processes ----


class Job:
    """A running command in a session of its own, with its messages in files that the next one in the folder leaves alone."""

    def __init__(self, command, folder, environment=None, before=None):
        self.command, self.folder = command, folder
        number = sum(name.startswith("err-") for name in os.listdir(folder))
        self.err_path = os.path.join(folder, f"err-{number}")
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}".encode()
        with open(os.path.join(folder, f"out-{number}"), "w") as out, open(self.err_path, "w") as err:
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            start_new_session=True, preexec_fn=before,
                                            env={**os.environ, "OMP_NUM_THREADS": "1", MARK.decode(): self.mark.decode(),
                                                 **(environment or {})})

    def processes(self):
        """All processes of the job that live, by a mark in their environment: a child may outlive its parent."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and is_alive(int(name)) and environment_of(int(name)).get(MARK) == self.mark:
                found.append(int(name))
        return found

    def ranks(self):
        """Process of each rank; nothing where a single process trains by itself."""
        ranks = {}
        for pid in self.processes():
            rank = environment_of(pid).get(b"OMPI_COMM_WORLD_RANK")
            if rank is not None:
                ranks[int(rank)] = pid
        return ranks

    def wait(self, limit_s=LIMIT_S):
        """Exit status; a job that does not end, or leaves processes behind, is lost."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            end_all(self.processes())
            self.process.wait()
            raise Lost(f"did not end within {limit_s} s: {self.messages()}") from None
        end = time.monotonic() + 30
        while self.processes():
            if time.monotonic() > end:
                left = self.processes()
                names = " ".join(command_of(pid) for pid in left)
                end_all(left)
                raise Lost(f"{len(left)} processes stayed behind ({names}): {self.messages()}")
            time.sleep(0.02)
        return status

    def messages(self):
        with open(self.err_path, errors="replace") as err:
            return err.read().strip()[-600:]


def environment_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return dict(pair.partition(b"=")[::2] for pair in environment.read().split(b"\0"))
    except OSError:
        return {}


def command_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as name:
            return name.read().strip()
    except OSError:
        return "?"


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def end_all(pids):
    for pid in pids:
        send(pid, signal.SIGKILL)


def send(pid, what):
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return False
    return True


# ---- what a run leaves ----


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def checkpoints(folder):
    if not os.path.isdir(folder):
        return []
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if name.startswith("step-") and name[5:].isdigit())


def result(folder):
    """Digests of all files of the last checkpoint; divided training has one for each of its networks."""
    root = os.path.join(folder, "ck")
    nets = sorted(name for name in os.listdir(root) if name.startswith("net-")) if os.path.isdir(root) else []
    found = {}
    for net in nets or [""]:
        steps = checkpoints(os.path.join(root, net))
        if not steps:
            raise Lost("there is no checkpoint")
        for name in sorted(os.listdir(steps[-1])):
            found[os.path.join(net, os.path.basename(steps[-1]), name)] = digest(os.path.join(steps[-1], name))
    return found


def log_lines(folder):
    """The log as a list of (update, loss) and of epochs; a line that is no JSON object is a loss."""
    updates, epochs = [], []
    with open(os.path.join(folder, "run.jsonl")) as lines:
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
            except ValueError:
                raise Lost(f"line {number} of the log is no JSON: {line[:80]!r}") from None
            if "step" in entry:
                updates.append((entry["step"], entry["loss"]))
            elif "train_loss" in entry:
                epochs.append((entry["epoch"], entry["train_loss"]))
    return updates, epochs


def litter(folder):
    """Files that an interrupted writer may leave for a while, and that the next one must have removed."""
    return [name for name in os.listdir(os.path.join(folder, "ck"))
            if name.startswith(".partial") or name.endswith(".replaced")]


def outcome(job, status, check=lambda: None):
    """Of a command that has ended: it did its work, and `check` finds nothing wrong, or it refused as it should."""
    if status == 0:
        check()
        return "survived"
    if status in (1, 2) and job.messages():
        return "detected"
    raise Lost(f"exit status {status}: {job.messages()}")
