#!/usr/bin/env bash
# tools/fuzz.sh SECONDS [NAME...]: runs the fuzzers of the fuzz preset one after another.
# New inputs gather in build/fuzz/corpus/NAME; an input that fails is left in build/fuzz/found/NAME, and goes to
# tests/fuzz/regressions/NAME with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=$1
shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        names+=("${name%.c}")
    done
fi

for name in "${names[@]}"; do
    echo "== fuzz_$name for $seconds s"
    mkdir -p "build/fuzz/corpus/$name" "build/fuzz/found/$name" "tests/fuzz/corpus/$name"
    seeds=("tests/fuzz/corpus/$name")
    if [ -d "tests/fuzz/regressions/$name" ]; then seeds+=("tests/fuzz/regressions/$name"); fi
    dictionary=()
    if [ -e "tests/fuzz/$name.dict" ]; then dictionary=("-dict=tests/fuzz/$name.dict"); fi
    "build/fuzz/tests/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        "${dictionary[@]}" -artifact_prefix="build/fuzz/found/$name/" "build/fuzz/corpus/$name" "${seeds[@]}"
done
