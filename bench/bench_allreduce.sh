#!/usr/bin/env bash
# Allreduces of 2 ranks of one machine under libparadl-mpi.so, beside the MPI library's own in turns of the same run
# (bench_allreduce.c): `auto`, and the fixed algorithms by shared memory and by MPI's messages. Every figure is the median of
# ROUNDS runs. `auto` must be at most 5 % slower than the best of them all, the library's own included.
set -euo pipefail
build=$(dirname "$PARADL")
program=$build/bench/bench_allreduce
if [ ! -x "$program" ] || ! command -v mpirun >/dev/null; then
    echo "no MPI: nothing to measure"
    exit 0
fi
python3 - "$program" "$build/libparadl-mpi.so" "${ROUNDS:-3}" "${SECONDS_EACH:-0.1}" <<'PYTHON'
import os, statistics, subprocess, sys
program, library, rounds, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
ways = [("auto", None)] + [(a, s) for a in ("rdb", "hd_near", "ring") for s in ("64MiB", "0")]

def run(algorithm, shared):
    variables = dict(LD_PRELOAD=library, PARADL_ALLREDUCE=algorithm, **({"PARADL_SHARED": shared} if shared else {}))
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    out = subprocess.run(["mpirun", *root, "--oversubscribe", "-n", "2"] + [x for k, v in variables.items() for x in ("-x", f"{k}={v}")]
                         + [program, "1024", str(64 << 20), seconds], capture_output=True, text=True, timeout=300, check=True).stdout
    return {int(l.split()[0]): tuple(map(float, l.split()[1:])) for l in out.splitlines()}

found = {}
for _ in range(rounds):
    for way in ways:
        for size, row in run(*way).items(): found.setdefault((size, way), []).append(row)
middle = lambda size, way, i: statistics.median(r[i] for r in found[size, way])
print("time over the MPI library's own, 2 ranks")
print(f"{'bytes':>9}  {'library':>10}  {'auto':>5}  {'best':>5}  of                    auto/best")
worst = 0
for size in sorted({s for s, _ in found}):
    own = statistics.median(middle(size, w, 1) for w in ways)
    auto = middle(size, ways[0], 2)
    best, name = min([(1.0, "the library's own")] + [(middle(size, w, 2), f"{w[0]}, {'messages' if w[1] == '0' else 'shared memory'}") for w in ways[1:]])
    worst = max(worst, auto / best)
    print(f"{size:>9}  {own:>7.1f} us  {auto:>5.2f}  {best:>5.2f}  {name:<20}  {auto / best:>9.2f}")
print(f"auto is at most {worst:.2f} times the best{'' if worst <= 1.05 else ': TOO SLOW'}")
sys.exit(worst > 1.05)
PYTHON
