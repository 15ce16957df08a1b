"""Whole runs on several ranks under the sanitizers: PARADL_ASAN (address, undefined) and PARADL_TSAN (thread)."""
import glob
import os
import time

import trial
from cases import CASES, Case

LIMIT_S = 600
SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan.supp")


def run(bench):
    # Open MPI itself leaks, and is not built for the thread sanitizer.
    judge(bench, "address, undefined", "PARADL_ASAN", {"ASAN_OPTIONS": "detect_leaks=0:log_path=report",
                                                       "UBSAN_OPTIONS": "print_stacktrace=1:log_path=report"})
    judge(bench, "thread", "PARADL_TSAN",
          {"TSAN_OPTIONS": f"suppressions={SUPPRESSIONS}:ignore_noninstrumented_modules=1:log_path=report:exitcode=66"})


def judge(bench, sanitizer, variable, environment):
    row, disturbed = bench.row(f"sanitizer ({sanitizer})"), bench.row(f"sanitizer ({sanitizer}), a rank killed")
    program = os.environ.get(variable, "")
    if not os.path.exists(program):
        row.remark = disturbed.remark = f"skipped: {variable} names no program"
        return
    names = list(CASES)
    for name in names if bench.count(len(names)) >= len(names) else bench.random.sample(names, bench.count(len(names))):
        case = Case(bench, name)
        try_one(bench, row, case, [program, *case.command()[1:], "--steps", "8"], environment, False)
        if case.ranks > 1:
            command = [program, *case.command()[1:], "--restarts", "1"]
            try_one(bench, disturbed, case, command, environment, True)


def try_one(bench, row, case, command, environment, kills):
    folder = case.folder("sanitizer")
    job = trial.Job(command, folder, environment)
    try:
        if kills:
            kill_a_rank(bench, job)
        status = job.wait(LIMIT_S)
        reports = glob.glob(os.path.join(folder, "report.*"))
        if reports:
            with open(reports[0], errors="replace") as report:
                raise trial.Lost(f"{case.name}: {report.read()[:1200]}")
        if status != 0:
            raise trial.Lost(f"{case.name}: exit status {status}: {job.messages()}")
        row.add("survived")
    except trial.Lost as reason:
        bench.lost(row, str(reason), folder)


def kill_a_rank(bench, job):
    """Once there is a checkpoint, so that the job is in the middle of its work."""
    while job.process.poll() is None and not trial.checkpoints(os.path.join(job.folder, "ck")):
        time.sleep(0.01)
    ranks = job.ranks()
    if ranks:
        trial.send(bench.random.choice(sorted(ranks.values())), trial.signal.SIGKILL)
