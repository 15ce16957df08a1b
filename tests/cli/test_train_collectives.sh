#!/usr/bin/env bash
# train: gradients go by the schedules that the plan names, which the messages show; names that cannot be are refused;
# what is open is decided while planning and written down.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

plan() { # FILE RANKS COLLECTIVES [MEMORY]
    printf 'paradl: plan/1\nmodel: lenet\ndata: {batch: 24}\nstrategy: data\nmesh: [{data: %s}]\ncollectives: {%s}\n%s\n' \
        "$2" "$3" "${4-}" >"$1"
}
run=(--data synthetic --samples 240 --lr 0.02 --threads 1 --direct --no-valid --quiet)

# The same four ranks by three schedules; hd_near also from the option, over the plan.
plan ring.yaml 4 "data: ring"
plan shd.yaml 4 "data: {algorithm: shd_near}"
plan nodes.yaml 4 "data: {algorithm: ring_rab, ranks_per_node: 2}"
for name in ring shd nodes; do
    expect 0 train $name.yaml "${run[@]}" --epochs 1 --json --log $name.jsonl
    mv out $name.json
done
expect 0 train shd.yaml --data synthetic --samples 240 --lr 0.02 --threads 1 --direct --no-valid --steps 2 \
    --algorithm rdb
has err "--algorithm rdb goes before the collectives of the plan: data shd_near"
has out "gradients over data (4 ranks): allreduce by rdb"
expect 0 train ring.yaml "${run[@]}" --steps 2 --json --algorithm measure
mv out measured.json

# Sharded: scattered and gathered by one name; what cannot scatter is refused.
plan sharded.yaml 2 "data: circulant" "memory: {sharding: zero2}"
expect 0 train sharded.yaml "${run[@]}" --steps 2 --json
mv out sharded.json
refuse() { # TEXT ARGUMENT...
    local text=$1
    shift
    expect 2 "$@"
    has err "$text"
    [ "$(wc -l <err)" -eq 1 ] || fail "more than one line: $(cat err)"
}
plan bad.yaml 2 "data: rdb" "memory: {sharding: zero2}"
refuse "bad.yaml: collectives.data: rdb does not exist for reduce-scatter" train bad.yaml "${run[@]}" --steps 1
plan bad.yaml 6 "data: shd_near"
refuse "does not support 6 ranks" train bad.yaml "${run[@]}" --steps 1
refuse "possible are auto, ring" simulate bad.yaml --system abci-v
plan bad.yaml 4 "data: shd_naer"
refuse "bad.yaml:6: there is no schedule \"shd_naer\": did you mean shd_near" train bad.yaml "${run[@]}" --steps 1
refuse "--algorithm tree: collectives.data: tree does not exist for reduce-scatter" \
    train sharded.yaml "${run[@]}" --steps 1 --algorithm tree

# Open: decided and written by plan, obeyed by train; and of an older file decided by train, which says so.
expect 0 plan --model lenet --system local --pe 2 --batch 24 --strategy data -o made.yaml
grep -q '^collectives: {data: [a-z]' made.yaml || fail "no schedule in the plan: $(grep collectives made.yaml)"
has out "collectives: data"
expect 0 train made.yaml "${run[@]}" --steps 2 --json
mv out made.json
plan old.yaml 2 "data: auto"
expect 0 train old.yaml --data synthetic --samples 240 --lr 0.02 --threads 1 --direct --no-valid --steps 2
has err "chosen for local, as the plan leaves it open: data "
expect 0 simulate old.yaml --system abci-v
has out "allreduce ring"
has err "chosen for abci-v, as the plan leaves it open: data ring"
expect 0 simulate shd.yaml --system abci-v
has out "allreduce shd_near"

python3 - <<'PY' || fail "not the schedules of the plans"
import json, re

def summary(name):
    return json.load(open(f"{name}.json"))

def losses(name):
    return [line["loss"] for line in map(json.loads, open(f"{name}.jsonl")) if "step" in line]

def of(name, collective="allreduce"):
    return [c for c in summary(name)["collectives"] if c["collective"] == collective]

# One bucket, ten updates: a ring of four has six steps, halving-doubling four.
for name, algorithm, steps in ("ring", "ring", 6), ("shd", "shd_near", 4):
    c, = of(name)
    assert (c["axes"], c["algorithm"], c["ranks"]) == ("data", algorithm, 4), c
    assert c["messages"] == 10 * steps, c
assert of("nodes")[0]["algorithm"] == "ring_rab", of("nodes")
ring = losses("ring")
assert len(ring) == 10
for name in "shd", "nodes":
    other = losses(name)
    assert all(abs(a - b) <= 1e-5 * abs(a) for a, b in zip(ring, other)), (ring, other)
epoch = [l for l in map(json.loads, open("shd.jsonl")) if "epoch_s" in l][0]
assert epoch["collectives"][0]["algorithm"] == "shd_near", epoch
assert of("sharded", "reduce-scatter")[0]["algorithm"] == "circulant", summary("sharded")["collectives"]
assert of("sharded", "allgather")[0]["algorithm"] == "circulant", summary("sharded")["collectives"]
assert of("measured")[0]["algorithm"] not in ("", "measure"), of("measured")
written = re.search(r"collectives: \{data: (\w+)", open("made.yaml").read()).group(1)
made = [c["algorithm"] for c in summary("made")["collectives"]]
assert made and all(name == written for name in made), (made, written)
PY
finish
