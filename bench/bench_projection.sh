#!/usr/bin/env bash
# Projected against measured time of an update on this machine, after calibration: models, batches and strategies on one
# and two ranks of one thread. Prints the table, the mean of 1 - |projected - measured| / measured, and per model and batch
# whether the strategy projected to be best on two ranks is the measured best or within 5 % of it. Other programs disturb single
# runs, so all of them are made several times, one round after the other; of a case the median of the rounds counts.
#
# STEPS=N updates of each run (12), ROUNDS=N rounds (3), MODELS="lenet ..." chooses models, SYSTEM=FILE takes an earlier calibration,
# QUICK=1 calibrates in less time.
set -euo pipefail

bench=$SOURCE/bench
steps=${STEPS:-12}
rounds=${ROUNDS:-3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
models=${MODELS:-"lenet resnet-tiny resnet18-cifar gpt-char-small $bench/models/vgg-small.yaml $SOURCE/tests/reference/cosmoflow-32.yaml"}
system=${SYSTEM:-$scratch/here.yaml}

if [ -z "${SYSTEM:-}" ]; then
    "$PARADL" calibrate -o "$system" --pe 2 --threads 1 ${QUICK:+--quick} \
        --model "resnet18-cifar,$bench/models/vgg-small.yaml,$SOURCE/tests/reference/cosmoflow-32.yaml"
fi

batches_of() {
    case $1 in
    *cosmoflow* | *resnet18*) echo 16 ;;
    *gpt* | *vgg*) echo 16 32 ;;
    *) echo 16 64 ;;
    esac
}

# run MODEL BATCH STRATEGY PE MESH: one line of JSON, or nothing where the strategy cannot be had.
run() {
    if "$PARADL" train --model "$1" --data synthetic --samples 256 --batch "$2" --strategy "$3" --pe "$4" --mesh "$5" \
        --threads 1 --lr 0.001 --steps "$steps" --no-valid --quiet --system "$system" --json >"$scratch/run.json" 2>"$scratch/error"; then
        printf '{"strategy": "%s", "run": %s}\n' "$3" "$(tr -d '\n' <"$scratch/run.json")" >>"$scratch/runs"
    else
        echo "# left out: $(basename "$1" .yaml) $3 batch $2: $(head -c 150 "$scratch/error")"
    fi
}

one_round() {
    local model batch
    for model in $models; do
        for batch in $(batches_of "$model"); do
            run "$model" "$batch" serial 1 data:1
            run "$model" "$batch" data 2 data:2
            run "$model" "$batch" filter 2 tensor:2
            run "$model" "$batch" channel 2 tensor:2
            case $model in *gpt*) ;; *) run "$model" "$batch" spatial 2 spatial_0:2 ;; esac
        done
    done
}

for ((round = 0; round < rounds; round++)); do one_round; done

python3 - "$scratch/runs" <<'PY'
import json
import os
import statistics
import sys

cases, groups, total = {}, {}, 0
for line in open(sys.argv[1]):
    case = json.loads(line)
    run = case["run"]
    model = os.path.basename(run["model"]).replace(".yaml", "")
    cases.setdefault((model, run["batch"], case["strategy"]), []).append((run["projected"]["step_s"], run["step_s"]))
print(f"{'model':16} {'batch':>5} {'strategy':9} {'projected':>11} {'measured':>11} {'accuracy':>9}")
for (model, batch, strategy), runs in cases.items():
    projected, measured = (statistics.median(figures) for figures in zip(*runs))
    accuracy = 1 - abs(projected - measured) / measured
    total += accuracy
    if strategy != "serial":
        groups.setdefault((model, batch), []).append((strategy, projected, measured))
    print(f"{model:16} {batch:5} {strategy:9} {1e3 * projected:8.2f} ms {1e3 * measured:8.2f} ms {accuracy:9.3f}")
print(f"\n{len(cases)} cases, mean accuracy {total / len(cases):.3f}")
right = 0
for (model, batch), runs in groups.items():
    chosen = min(runs, key=lambda run: run[1])
    best = min(runs, key=lambda run: run[2])
    right += chosen[2] <= 1.05 * best[2]
    if chosen[2] > 1.05 * best[2]:
        print(f"{model} batch {batch}: projected best {chosen[0]}, measured best {best[0]} ({chosen[2] / best[2]:.2f} times faster)")
print(f"the projected best is the measured best, or within 5 % of it, in {right} of {len(groups)}")
PY
