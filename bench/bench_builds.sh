#!/usr/bin/env bash
# Speed of training of two builds, $OLD and $PARADL, on this machine: their runs alternate, and the table has medians of a step
# and the median of the ratios of neighbours, above 1 where the new one is faster. For changes that must not cost time.
#
# CASES="serial spatial" chooses cases, ROUNDS=N the number of alternations (5), THREADS=N the threads of a rank (1).
set -euo pipefail

bench=$SOURCE/bench
. "$bench/common.sh"
[ -n "${OLD-}" ] || { echo "bench_builds: set OLD to the paradl of the other build" && exit 0; }
rounds=${ROUNDS:-5}
threads=${THREADS:-1}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# arguments_of CASE: what is trained.
arguments_of() {
    case $1 in
    cnn) echo "--model resnet18-cifar --batch 16 --steps 11" ;;
    small) echo "--model lenet --batch 64 --steps 103" ;;
    gpt) echo "--model $bench/models/gpt-4x256-small.yaml --batch 8 --steps 13 --optimizer adamw --lr 0.0001" ;;
    accumulate) echo "--model resnet-tiny --batch 64 --micro-batches 4 --steps 23" ;;
    data) echo "--model resnet18-cifar --batch 32 --steps 9 --pe 2" ;;
    zero3) echo "--model resnet18-cifar --batch 32 --steps 9 --pe 2 --sharding zero3" ;;
    spatial) echo "--model resnet18-cifar --batch 16 --steps 9 --pe 2 --strategy spatial" ;;
    spatial-micro) echo "--model resnet18-cifar --batch 16 --micro-batches 4 --steps 9 --pe 2 --strategy spatial" ;;
    pipeline) echo "--model resnet18-cifar --batch 32 --micro-batches 4 --steps 9 --pe 2 --strategy pipeline" ;;
    esac
}
cases=${CASES:-"cnn small gpt accumulate data zero3 spatial spatial-micro pipeline"}

# Median seconds of a step of one build; the first three, which warm up, do not count.
step_of() {
    rm -f "$scratch/log"
    # shellcheck disable=SC2046
    "$1" train $(arguments_of "$2") --data synthetic --samples 256 --threads "$threads" --no-valid --quiet \
        --log "$scratch/log" >"$scratch/out" 2>&1 || {
        echo "$1 failed on $2: $(tail -n 3 "$scratch/out")" >&2
        exit 1
    }
    number step_s <"$scratch/log" | tail -n +4 | median
}

printf '%-14s %10s %10s %8s\n' case 'old, ms' 'new, ms' ratio
for case in $cases; do
    : >"$scratch/old" && : >"$scratch/new" && : >"$scratch/ratio"
    for ((round = 0; round < rounds; round++)); do
        old=$(step_of "$OLD" "$case")
        new=$(step_of "$PARADL" "$case")
        echo "$old" >>"$scratch/old"
        echo "$new" >>"$scratch/new"
        awk -v a="$old" -v b="$new" 'BEGIN { print a / b }' >>"$scratch/ratio"
    done
    awk -v n="$case" -v o="$(median <"$scratch/old")" -v w="$(median <"$scratch/new")" -v r="$(median <"$scratch/ratio")" \
        'BEGIN { printf "%-14s %10.2f %10.2f %8.3f\n", n, 1000 * o, 1000 * w, r }'
done
