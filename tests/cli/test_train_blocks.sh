#!/usr/bin/env bash
# train and simulate with a memory policy per block: the losses of what keeps everything, to the last digit; recompute
# operations in the marked blocks only; memory in between; all alike equals the rule for all.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

cat > net.yaml <<'YAML'
paradl: model/1
name: net
input: {channels: 3, size: [16, 16]}
layers:
  - conv: {name: a1, out: 8, kernel: 3, pad: same}
  - relu: {name: r1}
  - conv: {name: a2, out: 8, kernel: 3, pad: same}
  - batch_norm: {name: n2}
  - relu: {name: r2}
  - conv: {name: a3, out: 8, kernel: 3, pad: same}
  - relu: {name: r3}
  - dropout: {name: d3, rate: 0.1}
  - conv: {name: b1, out: 8, kernel: 3, pad: same}
  - relu: {name: s1}
  - conv: {name: b2, out: 8, kernel: 3, pad: same}
  - relu: {name: s2}
  - add: {name: sum, from: [s2, d3]}
  - conv: {name: b3, out: 8, kernel: 3, pad: same}
  - relu: {name: s3}
  - global_avg_pool: {name: pool}
  - flatten: {name: flat}
  - linear: {name: fc, out: 10}
  - cross_entropy: {name: loss}
YAML

# plan NAME MESH STRATEGY STAGES MEMORY: writes NAME.yaml.
plan() {
    cat > "$1.yaml" <<YAML
paradl: plan/1
model: net.yaml
data: {batch: 8}
strategy: $3
mesh: [$2]
pipeline: {micro_batches: 2, stages: $4}
memory: {$5}
sync_batch_norm: true
YAML
}

keep="{to: d3, policy: keep}" again="{to: d3, policy: recompute}"
for mesh in one two pipe; do
    case $mesh in
    one) axes="{data: 1}" strategy=data stages=auto ;;
    two) axes="{data: 2}" strategy=data stages=auto ;;
    pipe) axes="{pipeline: 2}" strategy=pipeline stages="[input, b1]" ;;
    esac
    plan $mesh-none "$axes" $strategy "$stages" "recompute: none"
    plan $mesh-full "$axes" $strategy "$stages" "recompute: full"
    plan $mesh-mixed "$axes" $strategy "$stages" "blocks: [$again, {to: loss, policy: keep}]"
    plan $mesh-swap "$axes" $strategy "$stages" "blocks: [{to: d3, policy: swap}, {to: loss, policy: keep}]"
    plan $mesh-parts "$axes" $strategy "$stages" \
        "blocks: [{to: r1, policy: swap, release_after: 3, prefetch: 2}, {to: r2, policy: recompute}, {to: d3, policy: swap_boundary}, {to: s1, policy: swap}, {to: loss, policy: keep}]"
    plan $mesh-all "$axes" $strategy "$stages" "blocks: [{to: a2, policy: swap}, {to: d3, policy: swap, prefetch: 9}, {to: s2, policy: swap, release_after: 9}, {to: loss, policy: swap}]"
    plan $mesh-cheap "$axes" $strategy "$stages" \
        "blocks: [{to: d3, policy: recompute_cheap}, {to: s2, policy: swap_cheap}, {to: loss, policy: recompute_cheap}]"
    plan $mesh-late "$axes" $strategy "$stages" "blocks: [$keep, {to: b3, policy: recompute}, {to: loss, policy: keep}]"
done
plan one-keep "{data: 1}" data auto "blocks: [{to: loss, policy: keep}]"
plan one-again "{data: 1}" data auto "blocks: [{to: loss, policy: recompute}]"
plan pipe-keep "{pipeline: 2}" pipeline "[input, b1]" "blocks: [$keep, {to: loss, policy: keep}]"
plan pipe-again "{pipeline: 2}" pipeline "[input, b1]" "blocks: [$again, {to: loss, policy: recompute}]"
inter="[input, a2, b1, b3], schedule: interleaved, virtual_stages: 2"
plan inter-full "{pipeline: 2}" pipeline "$inter" "recompute: full"
plan inter-again "{pipeline: 2}" pipeline "$inter" \
    "blocks: [{to: r1, policy: recompute}, $again, {to: sum, policy: recompute}, {to: loss, policy: recompute}]"

train=(--data synthetic --samples 40 --no-valid --threads 1 --quiet --steps 4 --lr 0.05 --momentum 0.9)
for name in one-{none,full,mixed,late,keep,again} {two,pipe}-{none,mixed} pipe-late {one,two,pipe}-{swap,parts,all,cheap}; do
    expect 0 train $name.yaml "${train[@]}" --log $name.jsonl
done
for name in {one,two,pipe}-{none,full,mixed,late,swap,parts,all,cheap} {one,pipe}-{keep,again} inter-{full,again}; do
    for rank in 0 1; do
        [[ $name = one-* && $rank = 1 ]] && continue
        expect 0 train $name.yaml --device dry --data synthetic --samples 40 --threads 1 --rank $rank --json
        cp out $name-$rank.json
    done
    expect 0 simulate $name.yaml --system abci-v --json
    cp out $name-sim.json
done

python3 - <<'PY' || fail "blocks are not as expected"
import json

def losses(name):
    return [line["loss"] for line in map(json.loads, open(f"{name}.jsonl")) if "step" in line]

def dry(name, rank=0):
    return json.load(open(f"{name}-{rank}.json"))

def again(name, rank=0):
    return {op["name"].split()[1] for op in dry(name, rank)["ops"] if op["kind"] == "recompute"}

assert len(losses("one-none")) == 4
for name in ("one-full", "one-mixed", "one-late", "one-keep", "one-again"):
    assert losses(name) == losses("one-none"), name
assert losses("two-mixed") == losses("two-none")
assert losses("pipe-mixed") == losses("pipe-late") == losses("pipe-none")
for mesh in ("one", "two", "pipe"):
    for name in ("swap", "parts", "all", "cheap"):
        assert losses(f"{mesh}-{name}") == losses(f"{mesh}-none"), (mesh, name)

first, second = {"a1", "a2", "n2", "a3", "d3"}, {"b1", "b2", "sum", "b3"}
for mesh in ("one", "two", "pipe"):
    for rank in range(1 if mesh == "one" else 2):
        none, mixed, late = again(f"{mesh}-none", rank), again(f"{mesh}-mixed", rank), again(f"{mesh}-late", rank)
        assert not none
        assert mixed <= first and late <= second
        assert bool(mixed) == (mesh != "pipe" or rank == 0)
        assert bool(late) == (mesh != "pipe" or rank == 1)
        assert "a3" not in mixed or "d3" not in mixed  # what the other block reads is kept
        held = [dry(f"{mesh}-{way}", rank)["memory_bytes"] for way in ("full", "mixed", "none")]
        assert held[0] <= held[1] <= held[2], (mesh, rank, held)
    held = [dry(f"{mesh}-{way}")["memory_bytes"] for way in ("full", "mixed", "none")]
    assert held[0] < held[2] and held[1] < held[2], (mesh, held)

# Products are kept where only cheap layers are made again, and norms are made from the statistics that are kept: nobody sends them.
for mesh in ("one", "two", "pipe"):
    for rank in range(1 if mesh == "one" else 2):
        assert again(f"{mesh}-cheap", rank) <= {"n2", "d3", "sum", "s2"}, again(f"{mesh}-cheap", rank)
    held = [dry(f"{mesh}-{way}")["memory_bytes"] for way in ("cheap", "none")]
    assert "n2" in again(f"{mesh}-cheap") and held[0] < held[1], (mesh, held)
assert dry("two-cheap")["sent"]["statistics"] == dry("two-none")["sent"]["statistics"] > 0

for mesh, ranks in ("one", 1), ("pipe", 2), ("inter", 2):
    for short, block in ("none", "keep"), ("full", "again"):
        if mesh == "inter" and short == "none":
            continue
        for rank in range(ranks):
            same = [{key: value for key, value in dry(f"{mesh}-{way}", rank).items() if key != "command"} for way in (short, block)]
            assert same[0] == same[1], (mesh, short)

def sim(name):
    return json.load(open(f"{name}-sim.json"))

def seconds(name, what):
    return sim(name)[what]["total_s"]

for mesh in ("one", "two", "pipe"):
    for what in ("projected", "simulated"):
        none, mixed, full = (seconds(f"{mesh}-{way}", what) for way in ("none", "mixed", "full"))
        assert none < mixed < full, (mesh, what, none, mixed, full)
PY

# A limit that asks for it makes the planner swap or recompute some blocks, and the run has the losses of the one that keeps all.
sed 's|^  reserved: .*|  reserved: 100MB\n  host_link: {d2h: 4GB/s, h2d: 4GB/s, both: 3GB/s}|' "$SOURCE/share/systems/local.yaml" > linked.yaml
deep=(--model deep.yaml --batch 1 --strategy data -n 1)
{
    printf 'paradl: model/1\nname: deep\ninput: {channels: 3, size: [96, 96]}\nlayers:\n'
    for i in {1..12}; do printf '  - conv: {name: c%d, out: 8, kernel: 3, pad: same}\n  - relu: {name: r%d}\n' $i $i; done
    printf '  - global_avg_pool\n  - flatten\n  - linear: {out: 10}\n  - cross_entropy: {name: loss}\n'
} > deep.yaml
expect 0 plan "${deep[@]}" --system linked.yaml -o all-kept.yaml --json
whole=$(python3 -c 'import json; print(int(json.load(open("out"))["candidates"][0]["memory_bytes"]))')
limit=$((whole * 8 / 10))
expect 0 plan "${deep[@]}" --system linked.yaml --max-memory $limit -o limited.yaml
grep -q 'policy: keep' limited.yaml && grep -q 'policy: swap' limited.yaml || fail "not what was expected: $(cat limited.yaml)"
for plan in all-kept limited; do expect 0 train $plan.yaml "${train[@]}" --log $plan.jsonl; done
expect 0 train limited.yaml "${train[@]}" --max-memory $limit
expect 2 train all-kept.yaml "${train[@]}" --max-memory $limit
python3 -c 'import json
def losses(name): return [line["loss"] for line in map(json.loads, open(name)) if "step" in line]
assert len(losses("limited.jsonl")) == 4 and losses("limited.jsonl") == losses("all-kept.jsonl")' || fail "other losses"
# A limit below everything names the smallest that works, and a little more than that works.
expect 2 plan "${deep[@]}" --system linked.yaml --micro-batches 1 --max-memory 100kB
has err "at the least (compiled), of 97.7 KiB"
least=$(python3 -c 'import re
print(int(float(re.search(r"needs ([0-9.]+) MiB", open("err").read()).group(1)) * 2**20))')
expect 0 plan "${deep[@]}" --system linked.yaml --micro-batches 1 --max-memory $((least * 101 / 100)) -o least.yaml
expect 2 plan "${deep[@]}" --system linked.yaml --micro-batches 1 --max-memory $((least * 97 / 100))
expect 0 train least.yaml "${train[@]}" --log least.jsonl --max-memory $((least * 101 / 100))
# Stages of a pipeline are blocks of one policy, at some limit.
piped=(--model deep.yaml --batch 4 --micro-batches 2 --strategy pipeline -n 2 --system linked.yaml)
expect 0 plan "${piped[@]}" -o piped-kept.yaml --json
whole=$(python3 -c 'import json; print(int(json.load(open("out"))["candidates"][0]["memory_bytes"]))')
for share in 95 90 85 80 75 70 65 60; do
    "$PARADL" plan "${piped[@]}" --max-memory $((whole * share / 100)) -o piped-limited.yaml >out 2>err && grep -q 'policy: ' piped-limited.yaml && break
done
grep -q 'policy: swap' piped-limited.yaml || fail "no blocks in $(cat piped-limited.yaml)"
for plan in piped-kept piped-limited; do expect 0 train $plan.yaml "${train[@]}" --log $plan.jsonl; done
python3 -c 'import json
def losses(name): return [line["loss"] for line in map(json.loads, open(name)) if "step" in line]
assert len(losses("piped-kept.jsonl")) == 4 and losses("piped-kept.jsonl") == losses("piped-limited.jsonl")' || fail "other losses in a pipeline"
whole=$((limit * 10 / 8))
# Without a link there is nothing but recomputation.
expect 0 plan "${deep[@]}" --system local --max-memory $((whole * 9 / 10)) -o again.yaml
grep -q 'recompute: full\|policy: recompute' again.yaml || fail "nothing is recomputed: $(cat again.yaml)"
! grep -q 'policy: swap' again.yaml || fail "swaps without a link: $(cat again.yaml)"

expect 2 train one-none.yaml "${train[@]}" --recompute full
plan keep "{data: 1}" data auto "blocks: [{to: d3, policy: keep, prefetch: 2}, {to: loss, policy: keep}]"
expect 2 train keep.yaml "${train[@]}"
has err "keep.yaml:7: prefetch is of blocks that are swapped, and policy is keep: leave it out"
plan never "{data: 1}" data auto "blocks: [{to: d3, policy: swap, release_after: 0}, {to: loss, policy: keep}]"
expect 2 train never.yaml "${train[@]}"
has err "never.yaml:7: release_after"
finish
