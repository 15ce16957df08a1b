#!/usr/bin/env bash
# Speed of training on one NVIDIA GPU beside PyTorch's with torch.compile, from the same run: whole steps (forward, loss, backward,
# update) with our input pipeline running: images are bytes of a .npy file, prepared by LOADERS threads (8), tokens are synthetic; PyTorch's
# data is on the GPU already.
#
# MODELS="resnet50 gpt2-124m" chooses models, PRECISION=bf16|tf32|fp32 that of both (bf16), ROUNDS=N the number of alternations (3), STEPS=N
# the steps of each (40), MODE=eager|compile the peer's mode, PYTHON the interpreter that has torch, JSON=FILE writes the figures too. Without
# a GPU or torch a line says so.
set -euo pipefail

bench=$SOURCE/bench
. "$bench/common.sh"
rounds=${ROUNDS:-3}
steps=${STEPS:-40}
mode=${MODE:-compile}
precision=${PRECISION:-bf16}
loaders=${LOADERS:-8}
models=${MODELS:-"resnet50 wrn-28-10 gpt2-124m gpt2-1.5b"}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# settings MODEL: batch, model file, unit, units of a sample, options of ours.
settings() {
    case $1 in
    resnet50) echo "256 resnet50 img 1 --optimizer sgd --momentum 0.9 --lr 0.01 --weight-decay 1e-4" ;;
    wrn-28-10) echo "512 $bench/models/wrn-28-10-plain.yaml img 1 --optimizer sgd --momentum 0.9 --lr 0.01 --weight-decay 1e-4" ;;
    gpt2-124m) echo "32 $bench/models/gpt2-124m-plain.yaml tok 1024 --optimizer adamw --lr 3e-4 --weight-decay 0.01" ;;
    gpt2-1.5b) echo "8 $bench/models/gpt2-1.5b-plain.yaml tok 1024 --optimizer adamw --lr 3e-4 --weight-decay 0.01" ;;
    *) echo "bench_gpu: no settings for $1" >&2 && return 1 ;;
    esac
}

# images SIZE CLASSES COUNT: a data set of random images in a folder of that size.
images() {
    local folder=$scratch/images-$1
    [ -d "$folder" ] || "$python" - "$folder" "$@" <<'PY'
import os, sys
import numpy

folder, (size, classes, count) = sys.argv[1], map(int, sys.argv[2:])
draw = numpy.random.default_rng(1)
os.mkdir(folder)
for part, samples in ("train", count), ("val", 8):
    numpy.save(f"{folder}/{part}.npy", draw.integers(0, 256, (samples, 3, size, size), dtype="u1"))
    numpy.save(f"{folder}/{part}.labels.npy", draw.integers(0, classes, samples))
PY
    echo "$folder"
}

# What ours trains on.
data_of() {
    case $1 in
    resnet50) [ -n "$python" ] && images 224 1000 1024 || echo synthetic ;;
    *wrn-28-10*) [ -n "$python" ] && images 32 100 4096 || echo synthetic ;;
    *) echo synthetic ;;
    esac
}

# Median seconds of a step of ours; the first ten choose kernels and warm up.
ours() {
    local batch=$1 model=$2 data samples=()
    shift 4
    rm -f "$scratch/log"
    data=$(data_of "$model")
    [ "$data" != synthetic ] || samples=(--samples $((batch * 4)))
    "$PARADL" train --device cuda --precision "$precision" --model "$model" --data "$data" "${samples[@]}" --batch "$batch" --loader-threads "$loaders" \
        --steps $((steps + 10)) "$@" --no-valid --quiet --log "$scratch/log" >"$scratch/out" 2>&1 || {
        echo "paradl train failed on $model: $(tail -n 3 "$scratch/out")" >&2
        return 1
    }
    number step_s <"$scratch/log" | tail -n +11 | median
}

theirs() {
    "$python" "$bench/peer_gpu.py" --model "$1" --mode "$mode" --precision "$precision" --steps "$steps" | number step_s
}

row() {
    printf '%-12s %5s  %10s %16s  %10s %16s  %6s\n' "$@"
}

rate() {
    awk -v n="$1" -v s="$2" -v unit="$3" 'BEGIN { printf "%.0f %s/s", n / s, unit }'
}

milliseconds() {
    awk -v s="$1" 'BEGIN { printf "%.2f ms", s * 1000 }'
}

measure() {
    local model=$1 chosen batch unit each mine peers=- peer_rate=- ratio=- round a b
    chosen=$(settings "$model")
    read -r batch _ unit each _ <<<"$chosen"
    for name in ours theirs ratios; do : >"$scratch/$name"; done
    for ((round = 0; round < rounds; round++)); do
        # shellcheck disable=SC2086
        a=$(ours $chosen) || return 0
        echo "$a" >>"$scratch/ours"
        [ -n "$python" ] || continue
        b=$(theirs "$model")
        echo "$b" >>"$scratch/theirs"
        awk -v a="$a" -v b="$b" 'BEGIN { print b / a }' >>"$scratch/ratios"
    done
    mine=$(median <"$scratch/ours")
    if [ -n "$python" ]; then
        peers=$(median <"$scratch/theirs")
        peer_rate=$(rate $((batch * each)) "$peers" "$unit")
        peers=$(milliseconds "$peers")
        ratio=$(median <"$scratch/ratios" | awk '{ printf "%.2f", $1 }')
    fi
    row "$model" "$batch" "$(milliseconds "$mine")" "$(rate $((batch * each)) "$mine" "$unit")" "$peers" "$peer_rate" "$ratio"
    figures+=("{\"model\": \"$model\", \"precision\": \"$precision\", \"batch\": $batch, \"step_s\": $mine, \"peer_s\": $(known "$(median <"$scratch/theirs")"), \"ratio\": $(known "$ratio")}")
}

# A number, or JSON's word for none.
known() {
    case $1 in "" | -) echo null ;; *) echo "$1" ;; esac
}

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >/dev/null 2>&1; then
    echo "skipped: no NVIDIA GPU"
    exit 0
fi
python=$(find_python)
nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu --format=csv,noheader
if [ -n "$python" ]; then
    "$python" -c 'import torch; print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, mode '"$mode"', '"$precision"', '"$rounds"' alternations, medians")'
else
    echo "torch not installed: ours only, without a peer"
fi
row model batch ours "" PyTorch "" ratio
figures=()
for model in $models; do measure "$model"; done
[ -z "${JSON:-}" ] || (IFS=,; printf '[%s]\n' "${figures[*]}") >"$JSON"
