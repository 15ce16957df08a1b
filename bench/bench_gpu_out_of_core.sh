#!/usr/bin/env bash
# Out-of-core training on one NVIDIA GPU: networks under a limit of memory, as paradl plan --max-memory plans them, measured beside their projections
# and beside the projection for a device that holds everything. No peer is run here.
#
# CASES="resnet50 gpt2-1.5b gpt-13b" chooses: ResNet-50 of 1,024 images under 24 GiB, GPT-2 1.5B of 8 sequences under 40 GiB, and a GPT of 13.2 billion
# weights, 221 GiB with gradients and AdamW's state, which fit into no 140 GiB; gpt-8b is one of 8.3 billion (139 GiB, for hosts of less than 110 GiB).
# resnet50-10240 is ResNet-50 of 10,240 images, 414 GiB. Cases can be run one by one; gpt-13b takes longest, most of it until it is ready.
# STEPS=N: updates of each (8), LIMIT=N: seconds of a run (240). JSON=FILE writes the figures too. SYSTEM names the machine (h200-paradl). PYTHON has numpy. Without a GPU a line says so.
set -euo pipefail

bench=$SOURCE/bench
. "$bench/common.sh"
steps=${STEPS:-8}
system=${SYSTEM:-h200-paradl}
seconds=${LIMIT:-240}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PARADL_KERNELS=$scratch/kernels
if ! "$PARADL" train --model lenet --data synthetic --samples 8 --batch 8 --steps 1 --no-valid --quiet --device cuda >/dev/null 2>"$scratch/err"; then
    echo "skipped: $(tail -n 1 "$scratch/err")"
    exit 0
fi

# settings CASE: batch, limit, model, samples counted per sample, optimizer of the plan, of the run.
settings() {
    case $1 in
    resnet50) echo "1024 24GiB resnet50 1 momentum sgd" ;;
    resnet50-10240) echo "10240 136GiB resnet50 1 momentum sgd" ;;
    gpt2-1.5b) echo "8 40GiB $bench/models/gpt2-1.5b-plain.yaml 1024 adam adamw" ;;
    gpt-13b) echo "8 136GiB $bench/models/gpt-13b-plain.yaml 1024 adam adamw" ;;
    gpt-8b) echo "8 136GiB $bench/models/gpt-8b-plain.yaml 1024 adam adamw" ;;
    lenet) echo "64 1GiB lenet 1 momentum sgd" ;; # that it runs
    *) echo "bench_gpu_out_of_core: no settings for $1" >&2 && return 1 ;;
    esac
}

# images COUNT: random images and labels of ImageNet's form in $scratch/images.
images() {
    rm -rf "$scratch/images"
    mkdir "$scratch/images"
    ${PYTHON:-python3} - "$scratch/images" "$1" <<'PY'
import sys
import numpy

folder, count = sys.argv[1], int(sys.argv[2])
draw = numpy.random.default_rng(1)
some = draw.integers(0, 256, (min(count, 1024), 3, 224, 224), dtype="u1")
for part, samples in ("train", count), ("val", 8):
    numpy.save(f"{folder}/{part}.npy", numpy.resize(some, (samples, 3, 224, 224)))
    numpy.save(f"{folder}/{part}.labels.npy", draw.integers(0, 1000, samples))
PY
}

# projected OPTION...: seconds of an update.
projected() {
    "$PARADL" plan "${common[@]}" "$@" --json | number total_s | sed -n 1p # which reads all of it
}

printf '%-16s %7s  %12s %12s %12s  %12s %9s\n' "ms of an update" limit "in-core" projected measured "units/s" "of in-core"
sed 's/^  memory: .*/  memory: 2e12/' "$SOURCE/share/systems/$system.yaml" >"$scratch/large.yaml" # a device that holds everything
figures=()
for case in ${CASES:-resnet50 gpt2-1.5b gpt-13b}; do
    read -r batch limit model units planned run < <(settings "$case")
    common=(--model "$model" -n 1 --batch "$batch" --precision bf16 --optimizer "$planned" --micro-batches 1 --strategy serial)
    data=(--data synthetic --samples $((batch * 4)))
    if [[ $model = resnet50 ]]; then
        images "$batch"
        data=(--data "$scratch/images" --loader-threads 8)
    fi
    whole=$(projected --system "$scratch/large.yaml")
    expected=$(projected --system "$system" --max-memory "$limit" -o "$scratch/plan.yaml")
    rm -f "$scratch/log"
    status=0
    timeout "$seconds" "$PARADL" train "$scratch/plan.yaml" --device cuda "${data[@]}" --steps "$steps" --optimizer "$run" --lr 1e-4 --max-memory "$limit" --no-valid \
        --quiet --log "$scratch/log" >"$scratch/out" 2>&1 || status=$?
    if [[ $status -ne 0 ]]; then
        case $status in
        124) echo "$case: took longer than LIMIT, $seconds s" ;;
        *) echo "$case: $(tail -n 1 "$scratch/out")" ;;
        esac
        continue
    fi
    measured=$(number step_s <"$scratch/log" | tail -n +$((steps / 2)) | median)
    awk -v c="$case" -v l="$limit" -v w="$whole" -v e="$expected" -v m="$measured" -v n=$((batch * units)) \
        'BEGIN { printf "%-16s %7s  %12.1f %12.1f %12.1f  %12.0f %8.0f %%\n", c, l, 1e3 * w, 1e3 * e, 1e3 * m, n / m, 100 * w / m }'
    figures+=("{\"case\": \"$case\", \"limit\": \"$limit\", \"batch\": $batch, \"in_core_s\": $whole, \"projected_s\": $expected, \"step_s\": $measured}")
    sed -n 's/^swapped/    &/p' "$scratch/out"
done
[ -z "${JSON:-}" ] || (IFS=,; printf '[%s]\n' "${figures[*]}") >"$JSON"
