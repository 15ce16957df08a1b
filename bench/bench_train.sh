#!/usr/bin/env bash
# Speed of training beside PyTorch's, on the same cores: forward, backward and update in fp32, on synthetic data in memory.
#
# For each model the best setting of PyTorch is found first (peer_torch.py); then ours and PyTorch's runs alternate, and the
# table has the medians, the median of the ratios of neighbours, and both as shares of the arithmetic ceiling (fma_peak.c).
#
# MODELS="lenet resnet50" chooses models, ROUNDS=N the number of alternations (5), STEPS=N the steps of each, THREADS=N the threads (2), PYTHON the
# interpreter that has torch.
set -euo pipefail

bench=$SOURCE/bench
. "$bench/common.sh"
rounds=${ROUNDS:-5}
threads=${THREADS:-2}
models=${MODELS:-"resnet50 resnet18-cifar gpt-4x256 gpt-4x256-small lenet cosmoflow-128"}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# batch_of MODEL, steps_of MODEL: as in the table of peer_torch.py, and enough steps for about ten seconds.
batch_of() {
    case $1 in
    resnet50 | gpt-*) echo 8 ;;
    cosmoflow-*) echo 1 ;;
    *) echo 64 ;;
    esac
}

steps_of() {
    [ -z "${STEPS-}" ] || { echo "$STEPS" && return; }
    case $1 in
    lenet) echo 200 ;;
    gpt-4x256-small) echo 30 ;;
    *) echo 10 ;;
    esac
}

# Where the model is described: those of the benchmark lie beside it.
model_path() {
    if [ -e "$bench/models/$1.yaml" ]; then echo "$bench/models/$1.yaml"; else echo "$1"; fi
}

# Median seconds of a step of ours; the first three, which warm up, do not count.
ours() {
    local optimizer=sgd lr=0.001 batch steps
    batch=$(batch_of "$1")
    steps=$(steps_of "$1")
    case $1 in gpt-*) optimizer=adamw lr=0.0001 ;; esac
    rm -f "$scratch/log"
    "$PARADL" train --model "$(model_path "$1")" --data synthetic --samples $((batch * 4)) --batch "$batch" \
        --steps $((steps + 3)) --optimizer $optimizer --lr $lr --threads "$threads" --no-valid --quiet \
        --log "$scratch/log" >"$scratch/out" 2>&1 || {
        echo "paradl train failed on $1: $(tail -n 3 "$scratch/out")" >&2
        exit 1
    }
    number step_s <"$scratch/log" | tail -n +4 | median
}

# Median seconds of a step of PyTorch's with a setting.
theirs() {
    "$python" "$bench/peer_torch.py" --model "$1" --setting "$2" --steps "$(steps_of "$1")" --threads "$threads" \
        | number step_s
}

# The fastest setting for a model.
best_setting() {
    local setting seconds settings="default tuned channels_last channels_last-tuned"
    case $1 in gpt-*) settings="default tuned" ;; esac
    for setting in $settings; do
        seconds=$(theirs "$1" "$setting")
        echo "$seconds $setting"
    done | sort -g | head -n 1 | cut -d' ' -f2
}

# share FLOP SECONDS: of the ceiling, in per cent.
share() {
    awk -v flop="$1" -v s="$2" -v peak="$peak" 'BEGIN { printf "%.0f %%", flop / s / peak / 1e7 }'
}

row() {
    printf '%-16s %5s  %11s %6s  %11s %6s  %-20s %6s\n' "$@"
}

measure() {
    local model=$1 setting=- flop mine peers=- ratio=- peer_share=- round a b
    flop=$("$PARADL" model show "$(model_path "$model")" --json >"$scratch/model" &&
        awk -v batch="$(batch_of "$model")" -F'[:,]' '/"flop_(forward|backward)"/ && n < 2 { sum += $2; n++ }
            END { print sum * batch }' "$scratch/model")
    [ -z "$python" ] || setting=$(best_setting "$model")
    : >"$scratch/ours"
    : >"$scratch/theirs"
    : >"$scratch/ratios"
    for ((round = 0; round < rounds; round++)); do
        a=$(ours "$model")
        echo "$a" >>"$scratch/ours"
        [ -n "$python" ] || continue
        b=$(theirs "$model" "$setting")
        echo "$b" >>"$scratch/theirs"
        awk -v a="$a" -v b="$b" 'BEGIN { print b / a }' >>"$scratch/ratios"
    done
    mine=$(median <"$scratch/ours")
    if [ -n "$python" ]; then
        peers=$(median <"$scratch/theirs")
        peer_share=$(share "$flop" "$peers")
        peers=$(awk -v s="$peers" 'BEGIN { printf "%.2f ms", s * 1000 }')
        ratio=$(median <"$scratch/ratios" | awk '{ printf "%.2f", $1 }')
    fi
    row "$model" "$(batch_of "$model")" "$(awk -v s="$mine" 'BEGIN { printf "%.2f ms", s * 1000 }')" \
        "$(share "$flop" "$mine")" "$peers" "$peer_share" "$setting" "$ratio"
}

python=$(find_python)
ceiling=$("$(dirname "$PARADL")/bench/fma_peak" "$threads")
peak=${ceiling%% *}
echo "ceiling: $ceiling"
if [ -n "$python" ]; then
    echo "PyTorch $("$python" -c 'import torch; print(torch.__version__)'), $rounds alternations, medians"
else
    echo "python3-torch not installed: ours only, without a peer"
fi
row model batch ours share PyTorch share "best setting" ratio
for model in $models; do measure "$model"; done
