"""kill -9 of a rank, of mpirun or of the command at a random moment; then the run goes on, and may be killed again."""
import signal
import time

import trial
from cases import CASES, Case

WHOLE = 1100
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
