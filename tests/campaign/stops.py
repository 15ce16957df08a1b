"""SIGSTOP of a random rank: it must be named when the limit has passed, and the run must be able to go on."""
import os
import re
import signal
import time

import trial
from cases import CASES, Case

WHOLE = 100
LIMIT = "2s"


def run(bench):
    names = [name for name, (ranks, _) in CASES.items() if ranks > 1]
    wanted = bench.count(WHOLE)
    if wanted < len(names):
        names = bench.random.sample(names, wanted)
    row, restarted = bench.row("SIGSTOP of a rank"), bench.row("SIGSTOP of a rank, --restarts 1")
    for index, name in enumerate(names):
        share = wanted * (index + 1) // len(names) - wanted * index // len(names)
        try:
            case = Case(bench, name).measure()
        except trial.Lost as reason:
            bench.lost(row, f"{name}: {reason}")
            continue
        for _ in range(share):
            again = restarted.tried < row.tried
            stop(bench, case, restarted if again else row, again)


def stop(bench, case, row, again):
    folder = case.folder("stop")
    try:
        options = ["--stall-timeout", LIMIT, "--resume", *(["--restarts", "1"] if again else [])]
        job, victim = None, None
        while victim is None:
            job = trial.Job(case.command(*options), folder)
            victim = stop_one(bench, case, job)
            if victim is None and job.wait() != 0:
                raise trial.Lost(f"fails although nobody disturbed it: {job.messages()}")
            if victim is None:
                folder = case.folder("stop")
        judge(case, job, victim, again, folder)
    except trial.Lost as reason:
        bench.lost(row, f"{case.name}: {reason}", folder)
    else:
        row.add("survived")


def stop_one(bench, case, job):
    """Stops a rank while the ranks train; the one that was stopped, or nothing where the run had ended."""
    log = os.path.join(job.folder, "run.jsonl")
    while job.process.poll() is None and len(job.ranks()) < case.ranks:
        time.sleep(0.01)
    while job.process.poll() is None and not os.path.exists(log):
        time.sleep(0.01)
    time.sleep(bench.random.uniform(0, 0.6 * case.seconds))
    ranks = job.ranks()
    if job.process.poll() is not None or not ranks:
        return None
    victim = bench.random.choice(sorted(ranks))
    return victim if trial.send(ranks[victim], signal.SIGSTOP) else None


def judge(case, job, victim, again, folder):
    status = job.wait()
    named = re.search(rf"rank {victim}\b", job.messages())
    if status == 0 and not named:
        case.check(folder)  # it was stopped after its last message: nobody waited for it
        return
    if not named:
        raise trial.Lost(f"rank {victim} is not named: {job.messages()}")
    if again:
        if status != 0:
            raise trial.Lost(f"did not start again: {job.messages()}")
        case.check(folder)
        return
    if status != 1:
        raise trial.Lost(f"exit status {status}: {job.messages()}")
    case.finish(folder)
