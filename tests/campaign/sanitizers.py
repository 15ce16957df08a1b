"""Whole runs on several ranks under the sanitizers: PARADL_ASAN (address, undefined) and PARADL_TSAN (thread)."""
import glob
import os

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
    row = bench.row(f"sanitizer ({sanitizer})")
    program = os.environ.get(variable, "")
    if not os.path.exists(program):
        row.remark = f"skipped: {variable} names no program"
        return
    names = list(CASES)
    for name in names if bench.count(len(names)) >= len(names) else bench.random.sample(names, bench.count(len(names))):
        case = Case(bench, name)
        folder = case.folder("sanitizer")
        command = [program, *case.command()[1:], "--steps", "8", "--checkpoint-every", "4"]
        job = trial.Job(command, folder, environment)
        try:
            status = job.wait(LIMIT_S)
            reports = glob.glob(os.path.join(folder, "report.*"))
            if reports:
                with open(reports[0], errors="replace") as report:
                    raise trial.Lost(f"{name}: {report.read()[:1200]}")
            if status != 0:
                raise trial.Lost(f"{name}: exit status {status}: {job.messages()}")
            row.add("survived")
        except trial.Lost as reason:
            bench.lost(row, str(reason), folder)
