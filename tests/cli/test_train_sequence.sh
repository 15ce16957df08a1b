#!/usr/bin/env bash
# train: sequence parallelism on 2 and 4 ranks gives the losses of one rank, dropout and tied embeddings included.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

small_gpt 0.1
sed 's/^name: local/name: four/; s/fanout: 2/fanout: 4/' "$SOURCE/share/systems/local.yaml" >four.yaml
run=(--data synthetic --samples 64 --no-valid --steps 10 --batch 4 --lr 0.05 --clip 1 --threads 1 --quiet)
expect 0 train --model gpt.yaml "${run[@]}" --log 1.jsonl
for ranks in 2 4; do
    expect 0 plan --model gpt.yaml --strategy tensor --system four.yaml --pe $ranks --batch 4 -o plan.yaml
    has plan.yaml "sequence_parallel: true"
    has plan.yaml "tensor: space"
    expect 0 train plan.yaml "${run[@]}" --log $ranks.jsonl
done

python3 - <<'PY' || fail "losses differ from those of one rank"
import json

def losses(name):
    return [line["loss"] for line in map(json.loads, open(f"{name}.jsonl")) if "step" in line]

for ranks in (2, 4):
    pairs = list(zip(losses(1), losses(ranks)))
    worst = max(abs(a - b) / abs(a) for a, b in pairs)
    print(f"{ranks} ranks: {worst:.2e}")
    assert len(pairs) == 10 and worst <= 1e-4, (ranks, worst)
PY
finish
