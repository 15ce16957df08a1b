#!/usr/bin/env bash
# What networks learn on one NVIDIA GPU, and in which time: ResNet-18 and WRN-28-10 on CIFAR-10 in bf16, without and with samples hidden
# (--hide 0.3). Prints accuracy on the test images and seconds of every run, then means and deviations over the seeds. No peer is run.
#
# DATA is the folder of the data set (cifar10, as paradl data get leaves it), SEEDS="1 2 3" the seeds of ResNet-18, EPOCHS=N its epochs (60),
# WRN_EPOCHS=N those of WRN-28-10 (76; 0 leaves it out), HIDE the ways ("0 0.3"). Without a GPU a line says so.
set -euo pipefail

bench=$SOURCE/bench
. "$bench/common.sh"
data=${DATA:-cifar10}
logs=${LOGS:-$(mktemp -d)}
common=(--data "$data" --device cuda --precision bf16 --optimizer sgd --nesterov --weight-decay 5e-4 --schedule cosine --label-smoothing 0.1
    --loader-threads "${LOADERS:-$(nproc)}" --quiet)

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >/dev/null 2>&1; then
    echo "skipped: no NVIDIA GPU"
    exit 0
fi

# learn NAME HIDE SEED OPTION...: a row of the table, and of $logs/rows.
learn() {
    local name=$1 hide=$2 seed=$3 log=$logs/$1-$2-$3 hidden=()
    shift 3
    [ "$hide" = 0 ] || hidden=(--hide "$hide")
    if ! "$PARADL" train "${common[@]}" "$@" "${hidden[@]}" --seed "$seed" --log "$log.jsonl" --json >"$log.json" 2>"$log.err"; then
        echo "paradl train failed on $name: $(tail -n 1 "$log.err")" >&2
        return 1
    fi
    printf '%-12s %5s %6s %9.2f %% %8.1f s\n' "$name" "$hide" "$seed" "$(number valid_accuracy <"$log.json" | awk '{ print 100 * $1 }')" \
        "$(number elapsed_s <"$log.json")" | tee -a "$logs/rows"
}

: >"$logs/rows"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
printf '%-12s %5s %6s %11s %10s\n' network hide seed accuracy time
for seed in ${SEEDS:-1 2 3}; do
    for hide in ${HIDE:-0 0.3}; do
        learn resnet18 "$hide" "$seed" --model resnet18-cifar --batch 512 --epochs "${EPOCHS:-60}" --lr 0.4 --warmup 490 --augment crop:4,flip,cutout:8
    done
done
if [ "${WRN_EPOCHS:-76}" -gt 0 ]; then
    for hide in ${HIDE:-0 0.3}; do
        learn wrn-28-10 "$hide" 1 --model wrn-28-10 --batch 256 --epochs "${WRN_EPOCHS:-76}" --lr 0.2 --warmup 980 --augment crop:4,flip,cutout:16
    done
fi
echo "means over seeds, deviation of one"
awk '{ k = $1 " " $2; if (!(k in n)) order[++m] = k; n[k]++; a[k] += $4; q[k] += $4 * $4; t[k] += $6 }
    END { for (i = 1; i <= m; i++) { k = order[i]; split(k, w, " "); mean = a[k] / n[k]; v = n[k] > 1 ? (q[k] - n[k] * mean * mean) / (n[k] - 1) : 0
        printf "%-12s %5s %6d %9.2f %% %8.1f s   +- %.2f\n", w[1], w[2], n[k], mean, t[k] / n[k], sqrt(v > 0 ? v : 0) } }' "$logs/rows"
