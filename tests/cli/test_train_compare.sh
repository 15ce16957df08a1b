#!/usr/bin/env bash
# train: what was projected, simulated and measured, class by class, under several strategies; and the bottlenecks.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

run=(train --data synthetic --samples 64 --no-valid --steps 4 --batch 8 --lr 0.001 --threads 1 --quiet)
for case in "serial 1" "data 2" "spatial 2" "filter 2"; do
    read -r strategy ranks <<<"$case"
    expect 0 "${run[@]}" --model resnet-tiny --strategy "$strategy" --pe "$ranks" --json
    cp out "$strategy.json"
done
expect 0 "${run[@]}" --model resnet-tiny --strategy pipeline --pe 2 --micro-batches 4 --json
cp out pipeline.json
python3 - <<'PY' || fail "the memory projected for a strategy"
import json

for name in "serial", "data", "spatial", "filter", "pipeline":
    run = json.load(open(name + ".json"))
    off = run["projected"]["memory_bytes"] / run["memory_bytes"]
    assert 0.99 < off < 1.01, (name, run["projected"]["memory_bytes"], run["memory_bytes"])
PY

# Workers are micro-batches of their own: what is projected for four of them is what is projected for four micro-batches.
expect 0 "${run[@]}" --batch 32 --model resnet-tiny --workers 4 --json
cp out workers.json
expect 0 "${run[@]}" --batch 32 --model resnet-tiny --micro-batches 4 --json
cp out parts.json
expect 0 "${run[@]}" --batch 32 --model resnet-tiny --json
cp out whole.json
python3 - <<'PY' || fail "what is projected for workers"
import json

workers, parts, whole = (json.load(open(name + ".json")) for name in ("workers", "parts", "whole"))
for key in "step_s", "memory_bytes":
    assert workers["projected"][key] == parts["projected"][key], (key, workers["projected"], parts["projected"])
assert workers["projected"]["memory_bytes"] < 0.8 * whole["projected"]["memory_bytes"], (workers, whole)
off = workers["projected"]["memory_bytes"] / workers["memory_bytes"]
assert 0.95 < off < 1.05, (off, workers["memory_bytes"], workers["projected"]["memory_bytes"])
PY

# Nearly all of the work is in the first of two stages: its other end waits, and the report names who works.
cat > lopsided.yaml <<'YAML'
paradl: model/1
name: lopsided
input: {channels: 16, size: [48, 48]}
layers:
  - conv: {name: a, out: 64, kernel: 3, pad: same}
  - relu
  - conv: {name: b, out: 64, kernel: 3, pad: same}
  - relu
  - conv: {name: c, out: 64, kernel: 3, pad: same}
  - global_avg_pool: {name: pool}
  - flatten
  - linear: {name: fc, out: 10}
  - cross_entropy
YAML
cat > lopsided-plan.yaml <<'YAML'
paradl: plan/1
model: lopsided.yaml
system: local
data: {set: synthetic, batch: 8}
strategy: pipeline
mesh: [{pipeline: 2}]
pipeline: {micro_batches: 2, stages: [input, pool]}
YAML
expect 0 train lopsided-plan.yaml --data synthetic --samples 64 --no-valid --steps 6 --lr 0.001 --threads 1 --quiet --json
cp out lopsided.json
expect 0 train lopsided-plan.yaml --data synthetic --samples 64 --no-valid --steps 6 --lr 0.001 --threads 1 --quiet
has out "simulated"
has out "products, backward"
has out "bottlenecks and limits"
has out "local describes a generic processor"
! grep -q difference out || fail "differences from a description of another machine"
has out "load balance (limit): rank 0 computes"

python3 - <<'PY' || fail "the comparison is not as it should be"
import json

for name in ("serial", "data", "spatial", "filter", "pipeline", "lopsided"):
    run = json.load(open(f"{name}.json"))
    projected, simulated = run["projected"], run["simulated"]
    assert set(run["classes"]) == set(projected["classes"]) == set(simulated["classes"]), name
    for part in (projected, simulated):
        total = sum(value or 0 for value in part["classes"].values())
        assert abs(total / part["step_s"] - 1) < 1e-6, (name, total, part["step_s"])
    if name not in ("pipeline", "lopsided"):
        assert abs(simulated["step_s"] / projected["step_s"] - 1) < 0.01, (name, projected["step_s"], simulated["step_s"])
    work = sum(v for k, v in run["classes"].items() if k not in ("redistribution", "gradient exchange", "waiting for samples"))
    assert abs(work / run["work_s"] - 1) < 1e-6 and run["most_work_s"] >= run["work_s"] * (1 - 1e-9), name
    assert run["classes"]["gradient exchange"] > 0 or name not in ("data", "spatial"), name
    assert (run["classes"]["redistribution"] > 0) == (name not in ("serial", "data")), name
    parts = run["compute_s"] + run["comm_s"] + run["io_s"] + run["other_s"]
    assert abs(parts / run["step_s"] - 1) < 1e-6, (name, parts, run["step_s"])
    exchanged = run["classes"]["redistribution"] + run["classes"]["gradient exchange"]
    assert abs(run["compute_s"] - work) + abs(run["comm_s"] - exchanged) < 1e-6 * run["step_s"], name
    for finding in run["findings"]:
        assert 0 < finding["share"] <= 1 and finding["hint"], (name, finding)
assert "load balance" in [f["name"] for f in json.load(open("lopsided.json"))["findings"]]
PY
finish
