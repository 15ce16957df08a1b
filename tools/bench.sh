#!/usr/bin/env bash
# Runs every benchmark, bench/bench_*.sh. Each prints our figure and its peer's from the same run.
set -euo pipefail
cd "$(dirname "$0")/.."

shopt -s nullglob
benchmarks=(bench/bench_*.sh)
if [ ${#benchmarks[@]} -eq 0 ]; then
    echo "bench: there are no benchmarks in bench/" >&2
    exit 0
fi
for benchmark in "${benchmarks[@]}"; do
    echo "== $benchmark"
    PARADL=$PWD/build/release/paradl SOURCE=$PWD bash "$benchmark"
done
