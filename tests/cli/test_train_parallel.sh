#!/usr/bin/env bash
# train: data parallelism on 1, 2, 3 and 4 ranks gives the losses of one rank, batch norm synchronised.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

run=(train --model resnet-tiny --data synthetic --samples 400 --no-valid --steps 50 --batch 26 --lr 0.001 --threads 1
     --sync-batch-norm --direct --quiet)
for ranks in 1 2 3 4; do
    expect 0 "${run[@]}" --pe $ranks --log run$ranks.jsonl
done
# Buckets small enough that there are many of them, and no overlap, change nothing but the order of sums.
expect 0 "${run[@]}" --pe 3 --bucket 50kB --algorithm ring --log run3b.jsonl
expect 0 "${run[@]}" --pe 2 --no-overlap --algorithm library --log run2b.jsonl

python3 - <<'PY' || fail "losses differ from those of one rank"
import json

def losses(name):
    return [line["loss"] for line in map(json.loads, open(f"run{name}.jsonl")) if "step" in line]

serial = losses("1")
assert len(serial) == 50 and serial[-1] < serial[0], serial
for name in ("2", "3", "4", "3b", "2b"):
    worst = max(abs(a - b) / abs(a) for a, b in zip(serial, losses(name)))
    print(f"{name}: {worst:.2e}")
    assert worst <= 1e-5, (name, worst)
PY
finish
