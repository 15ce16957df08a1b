#!/usr/bin/env bash
# train: sparse sums of gradients. All elements sent are the dense run; few are few bytes; a resumed run is the whole one;
# what needs dense gradients is refused.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

run=(--model lenet --data synthetic --samples 240 --batch 24 --lr 0.02 --threads 1 --direct --no-valid --quiet --pe 2)
expect 0 train "${run[@]}" --steps 5 --log dense.jsonl
expect 0 train "${run[@]}" --steps 5 --log all.jsonl --gradient-sparsity 1e-9
has out "gradients over data (2 ranks): allreduce by sparse_ring of 100 % of the elements"
expect 0 train "${run[@]}" --steps 5 --log local.jsonl --gradient-sparsity 1e-9 --sparse-momentum local
few=("${run[@]}" --steps 8 --gradient-sparsity 0.98 --sparse-warmup 6 --sparse-momentum local --checkpoint kept --checkpoint-every 4 --json)
expect 0 train "${few[@]}" --log few.jsonl
mv out few.json
cp few.jsonl whole.jsonl
rm -r kept/step-00000008
expect 0 train "${few[@]}" --log few.jsonl --resume
expect 2 train "${few[@]}" --resume --gradient-sparsity 0.5
has err "--gradient-sparsity 0.98, this run has 0.5"
expect 2 train "${few[@]}" --resume --sparse-momentum masked
has err "--sparse-momentum local, this run has masked"

# A program of it, and the plan file that says the same.
dry=(--data synthetic --device dry)
printf 'paradl: plan/1\nmodel: lenet\ndata: {batch: 24}\nstrategy: data\nmesh: [{data: 2}]\ncollectives: {data: {%s}}\n' \
    "density: 0.02" >plan.yaml
expect 0 train plan.yaml "${dry[@]}" --json
mv out plan.json
expect 0 train --model lenet --batch 24 --pe 2 --gradient-sparsity 0.98 "${dry[@]}" --json
mv out option.json
expect 0 simulate plan.yaml --system abci-v
has out "allreduce sparse_ring"
has err "data sparse_ring of 2 %"

refuse() { # TEXT ARGUMENT...
    local text=$1
    shift
    expect 2 "$@"
    has err "$text"
    [ "$(wc -l <err)" -eq 1 ] || fail "more than one line: $(cat err)"
}
two=(train --model lenet --pe 2 "${dry[@]}" --gradient-sparsity 0.9)
refuse "lars scales a tensor by the norm of its dense gradient" "${two[@]}" --optimizer lars
refuse "lamb scales a tensor" train plan.yaml "${dry[@]}" --optimizer lamb
refuse "--clip limits the norm of dense gradients" "${two[@]}" --clip 1
refuse "leave out --workers" "${two[@]}" --batch 64 --workers 4
refuse "does not exist for reduce-scatter" "${two[@]}" --sharding zero1
refuse "leave out --algorithm" "${two[@]}" --algorithm ring
refuse "local momentum is for sgd" "${two[@]}" --optimizer adamw --sparse-momentum local
refuse "masked momentum is for sparse sums" train --model lenet "${dry[@]}" --sparse-momentum masked
refuse "--gradient-sparsity 1: expected a number" train --model lenet "${dry[@]}" --gradient-sparsity 1
bad() { # TEXT COLLECTIVE
    sed "s/density: 0.02/$2/" plan.yaml >bad.yaml
    refuse "$1" train bad.yaml "${dry[@]}"
}
bad "bad.yaml:6: density 2: expected" "density: 2"
bad "collectives.data: sparse_ring needs a density" "algorithm: sparse_ring"
bad "collectives.data: ring sends all elements" "algorithm: ring, density: 0.5"
bad "4 ranks per node do not divide 2 ranks" "algorithm: sparse_ring_ring, ranks_per_node: 4, density: 0.5"

python3 - <<'PY' || fail "not the sums that were asked for"
import json

def losses(name):
    return [line["loss"] for line in map(json.loads, open(name)) if "step" in line]

assert len(losses("dense.jsonl")) == 5 and losses("dense.jsonl") == losses("all.jsonl")
assert len(losses("whole.jsonl")) == 8 and losses("whole.jsonl") == losses("few.jsonl")
assert losses("whole.jsonl")[:5] != losses("dense.jsonl")
# Where all is sent it does not matter who has the momentum, but for rounding.
assert all(abs(a / b - 1) < 1e-5 for a, b in zip(losses("local.jsonl"), losses("dense.jsonl"))), losses("local.jsonl")
exchange, = json.load(open("few.json"))["collectives"]
assert exchange["algorithm"] == "sparse_ring" and abs(exchange["density"] - 0.02) < 1e-12, exchange
plan, option = (json.load(open(f"{name}.json")) for name in ("plan", "option"))
assert plan["ops"] == option["ops"]
# A rank sends half of the vector twice: 61,706 weights, eight bytes each of those that are sent. Two ranks that choose at random
# have few in common, real ones more.
def expect(density):
    return sum(min(4, 8 * d) * 61706 / 2 for d in (density, 1 - (1 - density) ** 2))
warm = sum(expect(0.25 * (0.02 / 0.25) ** min(1, step / 6)) for step in range(8))
assert 0.6 < exchange["sent_bytes"] / warm < 1, (exchange, warm)
expected = expect(0.02)
sent = sum(op.get("sent_bytes", 0) for op in plan["ops"] if op["name"].startswith("allreduce gradients"))
assert abs(sent / expected - 1) < 1e-3, (sent, expected)
PY
finish
