#!/usr/bin/env bash
# train: sharded state on two ranks gives the bits of whole state, also where the sharding changes from one checkpoint
# to the next, and from a plan file.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

run=(train --model lenet --data synthetic --samples 240 --batch 24 --optimizer adamw --lr 0.001 --ema 0.9
     --threads 1 --direct --quiet --bucket 20kB)
expect 0 "${run[@]}" --pe 2 --steps 12 --log whole.jsonl
steps=3
for sharding in zero3 none zero1 zero2; do
    expect 0 "${run[@]}" --pe 2 --steps $steps --sharding $sharding --checkpoint saved --resume --log changed.jsonl
    steps=$((steps + 3))
done
# What other ranks have written is read too.
expect 0 "${run[@]}" --pe 3 --steps 15 --sharding zero3 --checkpoint saved --resume --log changed.jsonl
expect 0 eval saved --data synthetic --samples 240 --ema --batch 24

expect 0 plan --model lenet --system local --pe 2 --batch 24 --strategy data -o plan.yaml
sed -i 's/sharding: [a-z0-9]*/sharding: zero3/' plan.yaml
has plan.yaml "sharding: zero3"
expect 0 train plan.yaml --data synthetic --samples 240 --optimizer adamw --lr 0.001 --ema 0.9 --threads 1 \
    --direct --quiet --bucket 20kB --steps 12 --log planned.jsonl
expect 2 "${run[@]}" --pe 2 --steps 1 --sharding zero4
has err zero4
expect 0 train --help
has out --sharding

python3 - <<'PY' || fail "losses differ from those without sharding"
import json

def losses(name):
    return [line["loss"] for line in map(json.loads, open(f"{name}.jsonl")) if "step" in line]

whole = losses("whole")
assert len(whole) == 12, whole
assert losses("planned") == whole, losses("planned")
assert losses("changed")[:12] == whole and len(losses("changed")) == 15, losses("changed")
PY
finish
