"""kill -9 of a rank, of mpirun or of the command at a random moment; then the run goes on, and may be killed again.

Then kill -9 of ranks under --restarts, where the job goes on by itself, and under --elastic, where it goes on with fewer ranks.
"""
import os
import signal
import time

import trial
from cases import CASES, Case

WHOLE, RESTARTED, ELASTIC = 1040, 60, 20
ROUNDING = 1e-3  # of a loss, between different numbers of ranks; it grows from update to update
MOST_IN_A_CHAIN = 12


def run(bench):
    wanted = bench.count(WHOLE)
    names = list(CASES) if wanted >= len(CASES) else bench.random.sample(list(CASES), wanted)
    for index, name in enumerate(names):
        row = bench.row(f"kill -9: {name} ({ranks_text(CASES[name][0])})")
        share = wanted * (index + 1) // len(names) - wanted * index // len(names)
        try:
            case = Case(bench, name).measure()
        except trial.Lost as reason:
            bench.lost(row, str(reason))
            continue
        while row.tried < share:
            chain(bench, case, row, share - row.tried)
    restarted(bench, "kill -9 of a rank, --restarts", RESTARTED, [], Case.check)
    restarted(bench, "kill -9 of a rank, --restarts --elastic", ELASTIC, ["--elastic"], check_losses)


def ranks_text(ranks):
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def chain(bench, case, row, most):
    """Kills one run again and again until it comes to its end; all kills of a chain share its outcome."""
    folder, kills = case.folder("kill"), 0
    try:
        while kills < min(most, MOST_IN_A_CHAIN):
            job = trial.Job(case.command("--resume"), folder)
            time.sleep(bench.random.uniform(0, 1.1 * case.seconds))
            if strike(bench, job):
                kills += 1
                job.wait()
            elif job.wait() == 0:
                break
            else:
                raise trial.Lost(f"fails although nobody disturbed it: {job.messages()}")
        case.finish(folder)
    except trial.Lost as reason:
        bench.lost(row, str(reason), folder, max(1, kills))
    else:
        row.add("survived", kills)


def strike(bench, job):
    """Kills one of the job's processes. False where the job has ended by then."""
    alive = job.processes()
    return bool(alive) and job.process.poll() is None and trial.send(bench.random.choice(alive), signal.SIGKILL)


# ---- jobs that go on by themselves ----


def restarted(bench, title, whole, more, check):
    """Kills ranks of a job that has --restarts: it must come to its end without being started again."""
    row = bench.row(title)
    fixed = {"--mesh", "--shuffle", "--aggregate"} if more else set()  # what --elastic is refused beside
    names = [name for name, (ranks, options) in CASES.items() if ranks > 1 and not fixed & set(options)]
    while row.tried < bench.count(whole):
        name = bench.random.choice(names)
        folder = None
        try:
            case = Case(bench, name).measure()
            folder = case.folder("restart")
            if kill_a_rank(bench, case, folder, more):
                check(case, folder)
                row.add("survived")
        except trial.Lost as reason:
            bench.lost(row, f"{name}: {reason}", folder)


def kill_a_rank(bench, case, folder, more):
    """False where the job had ended before a rank could be killed."""
    job = trial.Job(case.command("--resume", "--restarts", "2", *more), folder)
    while job.process.poll() is None and len(job.ranks()) < case.ranks:
        time.sleep(0.01)
    time.sleep(bench.random.uniform(0, 0.8 * case.seconds))
    ranks = job.ranks()
    struck = bool(ranks) and trial.send(bench.random.choice(sorted(ranks.values())), signal.SIGKILL)
    status = job.wait()
    if status != 0:
        raise trial.Lost(f"exit status {status}: {job.messages()}")
    return struck


def check_losses(case, folder):
    """Fewer ranks add up in another order: the log is complete, and losses agree but for rounding."""
    updates, wanted = trial.log_lines(folder)[0], case.log[0]
    if [update for update, _ in updates] != [update for update, _ in wanted]:
        raise trial.Lost(f"updates in the log differ: {len(updates)} of {len(wanted)}")
    for (update, loss), (_, reference) in zip(updates, wanted):
        if abs(loss - reference) > ROUNDING * (abs(reference) + 0.1):
            raise trial.Lost(f"the loss of update {update} is {loss}, not {reference}")
    if not trial.checkpoints(os.path.join(folder, "ck")):
        raise trial.Lost("there is no checkpoint")
