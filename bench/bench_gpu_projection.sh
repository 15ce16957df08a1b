#!/usr/bin/env bash
# Projected against measured time of an update on a GPU, after calibration: networks, batches, fp32 and bf16, recomputation, and one,
# two and four ranks on the device. Prints a table, the mean of 1 - |projected - measured| / measured, and for every group of
# cases that do the same work in different ways whether the one projected to be best is the measured best or within 3 % of it.
#
# PARADL=FILE the command; DEVICE=cuda:0; SYSTEM=FILE takes an earlier calibration; STEPS=N updates of each run (14); JSON=FILE writes
# the results too, RUNS=FILE the summaries of all runs; CASES=FILE has other cases than those below; LIMIT=SECONDS begins no further case after that (220).
set -euo pipefail

models=$(cd "$(dirname "$0")" && pwd)/models
paradl=${PARADL:-paradl}
device=${DEVICE:-cuda}
steps=${STEPS:-14}
limit=${LIMIT:-220}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
system=${SYSTEM:-$scratch/here.yaml}

# model batch precision recompute ranks strategy mesh; what matters most comes first
cases() {
    if [ -n "${CASES:-}" ]; then
        cat "$CASES"
        return
    fi
    cat <<'TABLE'
resnet50        256 bf16 none 1 serial   data:1
resnet50         32 bf16 none 1 serial   data:1
gpt2-plain        8 bf16 none 1 serial   data:1
gpt2-plain       32 bf16 none 1 serial   data:1
lenet            64 fp32 none 1 serial   data:1
lenet          1024 fp32 none 1 serial   data:1
resnet50        128 bf16 none 1 serial   data:1
resnet50        128 bf16 full 1 serial   data:1
gpt2-plain        8 bf16 full 1 serial   data:1
gpt2-plain        4 fp32 none 1 serial   data:1
resnet50         64 fp32 none 1 serial   data:1
lenet           256 bf16 none 1 serial   data:1
resnet18-cifar  128 bf16 none 1 serial   data:1
resnet18-cifar  512 bf16 none 1 serial   data:1
resnet18-cifar  128 fp32 none 1 serial   data:1
resnet18-cifar  512 bf16 full 1 serial   data:1
resnet18        128 bf16 none 1 serial   data:1
resnet34        256 bf16 none 1 serial   data:1
gpt-char         64 bf16 none 1 serial   data:1
gpt-char         64 fp32 none 1 serial   data:1
gpt-char        256 bf16 none 1 serial   data:1
gpt2-124m         8 bf16 none 1 serial   data:1
gpt3-125m         4 bf16 none 1 serial   data:1
wrn-plain       128 bf16 none 1 serial   data:1
vit-b16          64 bf16 none 1 serial   data:1
unet              4 bf16 none 1 serial   data:1
resnet18-cifar  512 bf16 none 2 data     data:2
resnet18-cifar  512 bf16 none 2 filter   tensor:2
resnet18-cifar  512 bf16 none 2 pipeline pipeline:2
gpt-char        256 bf16 none 2 data     data:2
gpt-char        256 bf16 none 2 pipeline pipeline:2
resnet50        128 bf16 none 2 data     data:2
resnet50        128 bf16 none 2 spatial  spatial_0:2
resnet18-cifar  512 bf16 none 4 data     data:4
gpt-char        256 bf16 none 4 data     data:4
resnet50        128 bf16 none 4 data     data:4
TABLE
}

if [ -z "${SYSTEM:-}" ]; then
    # Their operations are timed one by one; no update of them is run.
    "$paradl" calibrate --device "$device" -n 2 -o "$system" ${QUICK:+--quick} \
        --model "$models/gpt2-124m-plain.yaml,$models/wrn-28-10-plain.yaml,resnet18-cifar,gpt-char,resnet18,resnet34,gpt2-124m,vit-b16,unet"
fi

begin=$SECONDS
# run MODEL BATCH PRECISION RECOMPUTE RANKS STRATEGY MESH
run() {
    local model=$1
    case $model in
    gpt2-plain) model=$models/gpt2-124m-plain.yaml ;;
    wrn-plain) model=$models/wrn-28-10-plain.yaml ;;
    esac
    if [ $((SECONDS - begin)) -gt "$limit" ]; then
        echo "# left out for lack of time: $*"
    elif "$paradl" train --device "$device" --model "$model" --data synthetic --samples "$(($2 * (steps + 2)))" --batch "$2" --precision "$3" \
        --recompute "$4" -n "$5" --strategy "$6" --mesh "$7" --lr 0.001 --steps "$steps" --no-valid --quiet --system "$system" --json \
        >"$scratch/run.json" 2>"$scratch/error" </dev/null; then
        printf '{"case": "%s", "run": %s}\n' "$*" "$(tr -d '\n' <"$scratch/run.json")" >>"$scratch/runs"
    else
        echo "# left out: $*: $(head -c 200 "$scratch/error" | tr '\n' ' ')"
    fi
}
touch "$scratch/runs"
cases >"$scratch/cases"
while read -r line; do
    # shellcheck disable=SC2086
    run $line
done <"$scratch/cases"
if [ -n "${RUNS:-}" ]; then cp "$scratch/runs" "$RUNS"; fi

python3 - "$scratch/runs" "${JSON:-}" <<'PY'
import json
import sys

groups, cases = {}, []
print(f"{'model':15} {'batch':>5} {'type':4} {'recompute':9} {'ranks':>5} {'strategy':9} {'projected':>11} {'measured':>11} {'accuracy':>9} {'memory':>8}")
for line in open(sys.argv[1]):
    case = json.loads(line)
    run = case["run"]
    model, batch, precision, recompute, ranks, strategy, _ = case["case"].split()
    if not run.get("projected"):
        print("# not projected:", case["case"])
        continue
    # What is compared is an update whose samples are there.
    measured = run["step_s"] - run["io_s"]
    projected = run["projected"]["step_s"] - run["projected"].get("io_s", 0)
    accuracy = 1 - abs(projected - measured) / measured
    memory = run["projected"]["memory_bytes"] / run["memory_bytes"] if run.get("memory_bytes") else 0
    cases.append({"model": model, "batch": int(batch), "precision": precision, "recompute": recompute, "ranks": int(ranks),
                  "strategy": strategy, "projected_s": projected, "measured_s": measured, "accuracy": accuracy,
                  "classes": {name: [run["projected"]["classes"][name], run["classes"].get(name)] for name in run["projected"]["classes"]},
                  "memory": memory})
    groups.setdefault((model, batch, precision), []).append(cases[-1])
    print(f"{model:15} {batch:>5} {precision:4} {recompute:9} {ranks:>5} {strategy:9} {1e3 * projected:8.2f} ms {1e3 * measured:8.2f} ms "
          f"{accuracy:9.3f} {memory:8.4f}")
mean = sum(case["accuracy"] for case in cases) / max(1, len(cases))
print(f"\n{len(cases)} cases, mean accuracy {mean:.3f}")
right = several = 0
for (model, batch, precision), runs in groups.items():
    if len(runs) == 1:
        continue
    several += 1
    chosen = min(runs, key=lambda case: case["projected_s"])
    best = min(runs, key=lambda case: case["measured_s"])
    right += chosen["measured_s"] <= 1.03 * best["measured_s"]
    if chosen["measured_s"] > 1.03 * best["measured_s"]:
        print(f"{model} batch {batch} {precision}: projected best {chosen['strategy']} on {chosen['ranks']}, measured best {best['strategy']} "
              f"on {best['ranks']} ({chosen['measured_s'] / best['measured_s']:.2f} times faster)")
print(f"the projected best is the measured best, or within 3 % of it, in {right} of {several}")
if sys.argv[2]:
    json.dump({"mean_accuracy": mean, "best_found": right, "groups": several, "cases": cases}, open(sys.argv[2], "w"), indent=1)
PY
