#!/usr/bin/env bash
# train: what plan --strategy mixed proposes, samples divided over a tensor axis among it, gives the losses of one rank.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

sed 's/^name: local/name: four/; s/fanout: 2/fanout: 4/' "$SOURCE/share/systems/local.yaml" >four.yaml
run=(--data synthetic --samples 64 --no-valid --steps 6 --batch 14 --lr 0.01 --threads 1 --direct --quiet)
for model in lenet resnet-tiny; do
    expect 0 plan --model $model --strategy mixed --system four.yaml --pe 4 --batch 14 -o $model.yaml
    grep -q "tensor: sample" $model.yaml || fail "$model: the plan divides no samples over the tensor axis"
    # One rank sees the statistics of all samples.
    sed -i 's/sync_batch_norm: false/sync_batch_norm: true/' $model.yaml
    expect 0 train $model.yaml "${run[@]}" --log $model-4.jsonl
    expect 0 train --model $model "${run[@]}" --sync-batch-norm --log $model-1.jsonl
done

# With two micro-batches it proposes a pipeline of two stages, each of two ranks.
expect 0 plan --model lenet --strategy mixed --system four.yaml --pe 4 --batch 14 --micro-batches 2 -o staged.yaml
grep -q "mesh: \[{pipeline: 2}, {tensor: 2}\]" staged.yaml || fail "staged: $(grep mesh staged.yaml)"
grep -q "tensor: filter" staged.yaml || fail "staged: layers are all alike"
expect 0 train staged.yaml "${run[@]}" --log staged-4.jsonl
expect 0 train --model lenet "${run[@]}" --micro-batches 2 --log staged-1.jsonl

python3 - <<'PY' || fail "losses differ from those of one rank"
import json

def losses(name):
    return [line["loss"] for line in map(json.loads, open(f"{name}.jsonl")) if "step" in line]

for model in ("lenet", "resnet-tiny", "staged"):
    pairs = list(zip(losses(f"{model}-1"), losses(f"{model}-4")))
    worst = max(abs(a - b) / abs(a) for a, b in pairs)
    print(f"{model}: {worst:.2e}")
    assert len(pairs) == 6 and worst <= 1e-5, (model, worst)
PY
finish
