#!/usr/bin/env bash
# A model that does not fit one rank under a cap trains under the plan that `paradl plan` proposes for that cap, and takes what
# the plan says.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

sed 's/fanout: 2/fanout: 4/; s/^name: local$/name: four/' "$SOURCE/share/systems/local.yaml" > four.yaml

# try MODEL BATCH CAP RANKS SYSTEM: not on one rank, but on these, each a core of the system.
try() {
    local model=$1 batch=$2 cap=$3 ranks=$4 system=$5
    local data=(--data synthetic --samples 64 --no-valid --threads 1 --quiet --steps 3)
    # One rank has no way to fit, nor a plain run.
    expect 2 plan --model "$model" --system "$system" --pe 1 --batch "$batch" --max-memory "$cap"
    has err "not possible"
    expect 2 train --model "$model" --batch "$batch" "${data[@]}" --max-memory "$cap"
    has err "paradl plan --max-memory"
    expect 0 plan --model "$model" --system "$system" --pe "$ranks" --batch "$batch" --max-memory "$cap" \
        -o "$model-$ranks.yaml" --json
    cp out "$model-$ranks-plan.json"
    expect 0 train "$model-$ranks.yaml" "${data[@]}" --max-memory "$cap" --json
    cp out "$model-$ranks-run.json"
    python3 - "$model-$ranks" "$cap" <<'PY' || fail "$model on $ranks ranks under $cap"
import json, sys

name, cap = sys.argv[1], float(sys.argv[2])
best = json.load(open(f"{name}-plan.json"))["candidates"][0]
run = json.load(open(f"{name}-run.json"))
planned = [float(line.split("memory_bytes:")[1].split(",")[0].split("}")[0])
           for line in open(f"{name}.yaml") if "memory_bytes:" in line][0]
took = run["memory_bytes"]
print(f"{name}: {best['strategy']}, planned {planned:.0f}, took {took:.0f} of {cap:.0f}")
assert best["memory_from"] == "compiled" and best["memory_bytes"] == planned
assert took <= cap
assert abs(took - planned) <= 0.05 * planned
PY
}

try gpt-char-small 12 11000000 2 local
try resnet-tiny 16 3500000 4 four.yaml

# State that is whole does not fit on two ranks, but in parts it does.
adam=(--data synthetic --samples 64 --no-valid --threads 1 --quiet --steps 1 --batch 4 --optimizer adamw --pe 2)
expect 0 train --model gpt-char-small "${adam[@]}" --sharding zero3 --json
took=$(python3 -c 'import json; print(int(json.load(open("out"))["memory_bytes"]))')
expect 0 train --model gpt-char-small "${adam[@]}" --sharding zero3 --max-memory "$took"
for sharding in none zero1 zero2; do
    expect 2 train --model gpt-char-small "${adam[@]}" --sharding "$sharding" --max-memory "$took"
    has err "paradl plan --max-memory"
done
expect 2 train --model gpt-char-small "${adam[@]}" --sharding zero3 --max-memory "$((took - 1))"

# Nothing fits: the plan says what would be needed.
expect 2 plan --model gpt-char-small --system four.yaml --pe 2 --batch 12 --max-memory 2MB
has out "needs"
# A cap that is large enough changes nothing.
expect 0 train --model lenet --data synthetic --samples 64 --no-valid --batch 16 --steps 1 --quiet --max-memory 1GiB
finish
