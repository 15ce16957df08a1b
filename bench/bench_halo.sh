#!/usr/bin/env bash
# What it is worth that the halo of a convolution travels while it computes: seconds of a step of networks whose
# images are split over 2 ranks of one thread each. Runs with overlap, without it (--no-overlap: the same
# operations, but every message is waited for), and with another paradl, an earlier one for example, alternate;
# the table has the median of all steps and the fastest, which says more where other programs use the cores.
#
# MODELS="vgg-small" chooses models, BATCH=N samples (32), STEPS=N steps of a run (10), ROUNDS=N alternations (5),
# OTHER the path of the other paradl.
set -euo pipefail

. "$SOURCE/bench/common.sh"
models=${MODELS:-"vgg-small resnet18-cifar"}
batch=${BATCH:-32}
steps=${STEPS:-10}
rounds=${ROUNDS:-5}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

# step_s PROGRAM MODEL [OPTION...]: seconds of every step but the first three, which warm up.
step_s() {
    local program=$1 model=$2
    shift 2
    [ ! -e "$SOURCE/bench/models/$model.yaml" ] || model=$SOURCE/bench/models/$model.yaml
    rm -f "$scratch/log"
    timeout 600 "$program" train --model "$model" --data synthetic --samples $((4 * batch)) --batch "$batch" \
        --steps $((steps + 3)) --lr 0.001 --strategy spatial --pe 2 --threads 1 --no-valid --quiet \
        --log "$scratch/log" "$@" >"$scratch/out" 2>&1 || {
        echo "$program train failed on $model: $(tail -n 3 "$scratch/out")" >&2
        exit 1
    }
    number step_s <"$scratch/log" | tail -n +4
}

milliseconds() {
    if [ -s "$1" ]; then
        sort -g "$1" | awk '{ v[NR] = 1000 * $1 }
            END { printf "%.1f (%.1f) ms", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2, v[1] }'
    else
        echo -
    fi
}

row() {
    printf '%-16s %5s  %18s  %18s  %18s\n' "$@"
}

row model batch overlap no-overlap other
for model in $models; do
    for kind in together apart other; do : >"$scratch/$kind"; done
    for ((round = 0; round < rounds; round++)); do
        step_s "$PARADL" "$model" >>"$scratch/together"
        step_s "$PARADL" "$model" --no-overlap >>"$scratch/apart"
        [ -z "${OTHER-}" ] || step_s "$OTHER" "$model" >>"$scratch/other"
    done
    row "$model" "$batch" "$(milliseconds "$scratch/together")" "$(milliseconds "$scratch/apart")" \
        "$(milliseconds "$scratch/other")"
done
