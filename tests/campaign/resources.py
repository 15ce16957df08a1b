"""A full disk, a folder that cannot be written, files that somebody removes, too little memory."""
import os
import shutil
import subprocess
import time

import trial
from cases import Case, remove

DISKS, READ_ONLY, REMOVED, MEMORY = 40, 10, 60, 40
NAMES = ("serial", "hiding", "rounds, FedAvg", "data", "data, zero3")


def run(bench):
    cases = []
    for name in NAMES if bench.scale >= 0.2 else NAMES[:1]:
        cases.append(Case(bench, name).measure())
    if os.geteuid() == 0:
        repeat(bench, cases, DISKS, "full disk", full_disk)
        repeat(bench, cases, READ_ONLY, "folder becomes read-only", read_only)
        repeat(bench, cases, MEMORY, "memory limit (cgroup)", memory_limit)
    else:
        for name in ("full disk", "folder becomes read-only", "memory limit (cgroup)"):
            bench.row(name).remark = "skipped: needs root"
    repeat(bench, cases, REMOVED, "files of the checkpoint removed", removed)


def repeat(bench, cases, whole, name, do):
    row = bench.row(name)
    for number in range(bench.count(whole)):
        case = cases[number % len(cases)]
        folder = case.folder("resource")
        try:
            row.add(do(bench, case, folder))
        except trial.Lost as reason:
            bench.lost(row, f"{case.name}: {reason}", folder)
        except Unavailable as reason:
            row.remark = f"skipped: {reason}"
            return


class Unavailable(Exception):
    """This machine does not have what the trial needs."""


def mount(*arguments):
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(done.stderr.strip())


def unmount(path):
    for _ in range(100):
        if subprocess.run(["umount", path], capture_output=True).returncode == 0:
            return
        time.sleep(0.05)
    subprocess.run(["umount", "-l", path], capture_output=True)


def one_checkpoint_bytes(bench, case):
    reference = trial.checkpoints(os.path.join(bench.folder, "reference", "ck"))
    if not reference:
        return 1 << 20
    return sum(os.path.getsize(os.path.join(reference[-1], name)) for name in os.listdir(reference[-1]))


def full_disk(bench, case, folder):
    """The folder of checkpoints is on a disk for none to four of them; then it moves to a larger one and goes on."""
    disk = os.path.join(folder, "ck")
    os.makedirs(disk)
    size = int(bench.random.uniform(0.01, 4) * one_checkpoint_bytes(bench, case)) + 8192
    mount("-t", "tmpfs", "-o", f"size={size}", "campaign", disk)
    try:
        job = trial.Job(case.command("--resume"), folder)
        status = job.wait()
        for path in trial.checkpoints(disk):
            require_whole(bench, case, path, folder)
        shutil.copytree(disk, os.path.join(folder, "saved"))
    finally:
        unmount(disk)
    remove(disk)
    os.rename(os.path.join(folder, "saved"), disk)
    outcome = trial.outcome(job, status, lambda: case.check(folder))
    if outcome == "detected":
        case.finish(folder)
    return outcome


def require_whole(bench, case, path, folder):
    job = trial.Job([bench.paradl, "eval", path, *evaluated(case)], folder)
    status = job.wait()
    if status != 0:
        raise trial.Lost(f"{os.path.basename(path)} is damaged: {job.messages()}")


def evaluated(case):
    """The options of a run that say on what it is evaluated."""
    kept = []
    for option in ("--data", "--samples", "--model"):
        if option in case.options:
            kept += [option, case.options[case.options.index(option) + 1]]
    return kept


def read_only(bench, case, folder):
    disk = os.path.join(folder, "ck")
    os.makedirs(disk)
    mount("--bind", disk, disk)
    try:
        job = trial.Job(case.command("--resume"), folder)
        time.sleep(bench.random.uniform(0, case.seconds))
        subprocess.run(["mount", "-o", "remount,ro,bind", disk], capture_output=True)
        status = job.wait()
    finally:
        unmount(disk)
    outcome = trial.outcome(job, status, lambda: case.check(folder))
    if outcome == "detected":
        case.finish(folder)
    return outcome


def removed(bench, case, folder):
    """Somebody removes a file, or a whole checkpoint, after half of a run."""
    stop_half(bench, case, folder)
    found = trial.checkpoints(os.path.join(folder, "ck"))
    if not found:
        case.finish(folder)
        return "survived"
    target = bench.random.choice([found[-1], *(os.path.join(found[-1], name) for name in os.listdir(found[-1]))])
    remove(target)
    job = trial.Job(case.command("--resume"), folder)
    status = job.wait()
    outcome = trial.outcome(job, status, lambda: case.check(folder))
    if os.path.dirname(target) == found[-1] and os.path.basename(found[-1]) not in job.messages():
        # The run went on from an older checkpoint, or from this one without a file that it should have.
        raise trial.Lost(f"{os.path.basename(target)} was gone and nothing was said")
    return outcome


def stop_half(bench, case, folder):
    job = trial.Job(case.command("--resume"), folder)
    time.sleep(bench.random.uniform(0.5, 0.9) * case.seconds)
    trial.send(job.process.pid, trial.signal.SIGTERM)
    job.wait()


# ---- memory ----


def memory_limit(bench, case, folder):
    """A limit between a tenth of what the job takes and a little more."""
    if case.memory is None:
        _, _, case.memory = run_in_group(case, case.folder("unlimited"), None)
    limit = int(bench.random.uniform(0.1, 1.1) * case.memory)
    status, job, _ = run_in_group(case, folder, limit)
    # The kernel leaves the command no time for a word when it kills it; what counts then is that the run goes on.
    killed = status == -trial.signal.SIGKILL
    outcome = "survived" if killed else trial.outcome(job, status, lambda: case.check(folder))
    if status != 0:
        case.finish(folder)
    return outcome


def run_in_group(case, folder, limit):
    """Exit status, job, and the most memory that its processes had together."""
    group, names = make_group()
    try:
        for name in names[:-1] if limit else ():
            write(os.path.join(group, name), limit)
        job = trial.Job(case.command("--resume"), folder,
                        before=lambda: write(os.path.join(group, "cgroup.procs"), os.getpid()))
        status = job.wait()
        with open(os.path.join(group, names[-1])) as file:
            return status, job, int(file.read())
    finally:
        remove_group(group)


def make_group():
    name = f"paradl-campaign-{os.getpid()}-{time.monotonic_ns()}"
    for root, names in (("/sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
                                                   "memory.max_usage_in_bytes")),
                        ("/sys/fs/cgroup", ("memory.max", "memory.swap.max", "memory.peak"))):
        group = os.path.join(root, name)
        try:
            os.makedirs(group, exist_ok=True)
        except OSError:
            continue
        there = [file for file in names if os.path.exists(os.path.join(group, file))]
        if names[0] in there and names[-1] in there:
            return group, there
        os.rmdir(group)
    raise Unavailable("no memory cgroup that we may use")


def remove_group(group):
    for _ in range(100):
        try:
            os.rmdir(group)
            return
        except OSError:
            time.sleep(0.05)


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))
