#!/usr/bin/env bash
# Weak scaling of data parallelism, beside PyTorch's DistributedDataParallel over gloo: one rank with one thread, then RANKS of
# them with a batch each, on this machine's cores. Runs alternate: one and several, ours and PyTorch's; the table has the
# medians, and as speed-up the median over the rounds of RANKS times the time of one over the time of several.
#
# MODELS="resnet18-cifar" chooses models, RANKS=N the ranks (2), ROUNDS=N the rounds (5), STEPS=N the steps of each run (8).
set -euo pipefail

bench=$SOURCE/bench
. "$bench/common.sh"
models=${MODELS:-"resnet18-cifar"}
ranks=${RANKS:-2}
rounds=${ROUNDS:-5}
steps=${STEPS:-8}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# ours MODEL RANKS: median seconds of a step after three that warm up. Every rank has the batch that peer_torch.py has.
ours() {
    local batch=64
    [ "$1" != resnet50 ] || batch=8
    rm -f "$scratch/log"
    "$PARADL" train --model "$1" --data synthetic --samples $((batch * $2 * 2)) --batch $((batch * $2)) --pe "$2" --threads 1 \
        --steps $((steps + 3)) --lr 0.001 --no-valid --quiet --log "$scratch/log" >"$scratch/out" 2>&1 || {
        echo "paradl train failed on $1: $(tail -n 3 "$scratch/out")" >&2
        exit 1
    }
    number step_s <"$scratch/log" | tail -n +4 | median
}

theirs() {
    "$python" "$bench/peer_torch.py" --model "$1" --ranks "$2" --threads 1 --steps "$steps" | number step_s
}

# one_round WHO MODEL: adds a line with the times of one rank and of several, and the speed-up.
one_round() {
    local one several
    one=$("$1" "$2" 1)
    several=$("$1" "$2" "$ranks")
    awk -v one="$one" -v several="$several" -v ranks="$ranks" 'BEGIN { print one, several, ranks * one / several }' \
        >>"$scratch/$1"
}

row() {
    printf '%-16s %-8s %12s %12s %9s\n' "$@"
}

show() {
    row "$2" "$3" "$(cut -d' ' -f1 "$scratch/$1" | median | awk '{ printf "%.1f ms", 1000 * $1 }')" \
        "$(cut -d' ' -f2 "$scratch/$1" | median | awk '{ printf "%.1f ms", 1000 * $1 }')" \
        "$(cut -d' ' -f3 "$scratch/$1" | median | awk '{ printf "%.2f", $1 }')"
}

python=$(find_python)
[ -n "$python" ] || echo "python3-torch not installed: ours only, without a peer"
row model who "1 rank" "$ranks ranks" speed-up
for model in $models; do
    rm -f "$scratch/ours" "$scratch/theirs"
    for ((round = 0; round < rounds; round++)); do
        one_round ours "$model"
        [ -z "$python" ] || one_round theirs "$model"
    done
    show ours "$model" paradl
    [ -z "$python" ] || show theirs "$model" PyTorch
done
