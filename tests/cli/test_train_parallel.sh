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

# The log has the times of ranks once an epoch: 15 updates of each, and nothing where there is one rank.
python3 - <<'PY' || fail "ranks of a log"
import json

def ranks(name):
    return [line.get("ranks") for line in map(json.loads, open(f"run{name}.jsonl")) if "train_loss" in line]

assert ranks("1") == [None] * 4, ranks("1")
spread = ranks("3")
assert [(one["first_step"], one["every"], len(one["compute_s"])) for one in spread] == [(1, 1, 15), (16, 1, 15), (31, 1, 15), (46, 1, 5)], spread
for least, median, largest, slowest in sum((one["compute_s"] for one in spread), []):
    assert 0 < least <= median <= largest and slowest in (0, 1, 2), spread
PY
expect 0 report run3.jsonl --text
has out "-- Ranks: the slowest computes"

# Layers that are too small for an axis stay whole; more ranks than the system has devices find a mesh all the same.
cat >small.yaml <<'YAML'
paradl: model/1
name: small
input: {channels: 3, size: [12, 12]}
layers:
  - conv: {name: c1, out: 8, kernel: 3, pad: 1}
  - relu
  - conv: {name: thin, out: 2, kernel: 3, pad: 1}
  - relu
  - conv: {name: c3, out: 8, kernel: 3, pad: 1}
  - relu
  - global_avg_pool
  - flatten
  - linear: {name: outc, out: 3}
  - cross_entropy
YAML
run=(train --model small.yaml --data synthetic --samples 96 --batch 24 --threads 1 --steps 6 --lr 0.05 --no-valid --direct)
expect 0 "${run[@]}" --log small1.jsonl
expect 0 "${run[@]}" --log small2.jsonl --pe 2 --strategy channel
expect 0 "${run[@]}" --log small3.jsonl --pe 3 --strategy filter
has err "thin: whole on every rank"
expect 0 "${run[@]}" --log small4.jsonl --pe 4 --strategy channel
has err "c3: whole on every rank"
expect 0 "${run[@]}" --log small4b.jsonl --pe 4 --strategy data+filter
has err "mesh data:2,tensor:2, projected"
expect 0 "${run[@]}" --log small4c.jsonl --pe 4 --strategy filter --mesh tensor:4
has err "thin, outc: whole on every rank"
python3 - <<'PY' || fail "losses of small layers differ from those of one rank"
import json


def losses(name):
    return [line["loss"] for line in map(json.loads, open(f"small{name}.jsonl")) if "step" in line]


serial = losses("1")
assert len(serial) == 6
for name in ("2", "3", "4", "4b", "4c"):
    assert max(abs(a - b) / a for a, b in zip(serial, losses(name))) <= 1e-5, (name, losses(name), serial)
PY
finish
