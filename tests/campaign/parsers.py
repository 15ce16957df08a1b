"""Every fuzzer for a while. What is tried are inputs; what is lost are findings."""
import os
import re
import subprocess

SECONDS = 60  # for each, in a whole campaign


def run(bench):
    folder = os.environ.get("PARADL_FUZZERS", "")
    names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"fuzz_\w+", name)) if os.path.isdir(folder) else []
    if not names:
        bench.row("fuzzed parsers").remark = "skipped: PARADL_FUZZERS names no folder of fuzzers"
        return
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz")
    for name in names:
        fuzz(bench, bench.row(f"inputs of {name}"), os.path.join(folder, name), source, name.removeprefix("fuzz_"))


def fuzz(bench, row, program, source, subject):
    scratch = bench.scratch("fuzz")
    seeds = [path for path in (os.path.join(source, kind, subject) for kind in ("corpus", "regressions"))
             if os.path.isdir(path)]
    dictionary = os.path.join(source, subject + ".dict")
    options = [f"-dict={dictionary}"] if os.path.exists(dictionary) else []
    done = subprocess.run([program, f"-max_total_time={bench.count(SECONDS)}", "-timeout=20", "-rss_limit_mb=2048",
                           "-print_final_stats=1", *options, f"-artifact_prefix={scratch}/found-", scratch, *seeds],
                          capture_output=True, text=True, errors="replace", cwd=scratch)
    inputs = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    row.add("survived", int(inputs.group(1)) if inputs else 0)
    if done.returncode:
        bench.lost(row, done.stderr.strip()[-600:], scratch)
