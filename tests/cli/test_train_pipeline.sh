#!/usr/bin/env bash
# train: pipelines under all schedules give the losses of one rank, also with skips over stages and tied weights; their
# checkpoints resume on other meshes.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

# The sum at the end reads the output of the first stage.
cat > skip.yaml <<'YAML'
paradl: model/1
name: skip
input: {channels: 3, size: [8, 8]}
layers:
  - conv: {name: a, out: 8, kernel: 3, pad: same}
  - relu: {name: first}
  - conv: {name: b, out: 8, kernel: 3, pad: same}
  - batch_norm
  - relu
  - conv: {name: c, out: 8, kernel: 3, pad: same}
  - relu
  - conv: {name: d, out: 8, kernel: 3, pad: same}
  - relu: {name: last}
  - add: [last, first]
  - global_avg_pool
  - flatten
  - linear: {name: fc, out: 10}
  - cross_entropy
YAML

common=(--data synthetic --samples 200 --no-valid --threads 1 --quiet --batch 12 --micro-batches 6)
skip=(train --model skip.yaml "${common[@]}" --steps 10 --lr 0.05 --sync-batch-norm --clip 1)
gpt=(train --model gpt-char-small "${common[@]}" --steps 3 --optimizer adamw --lr 0.001)

expect 0 "${skip[@]}" --log skip.jsonl
expect 0 "${skip[@]}" --pe 6 --strategy pipeline --mesh pipeline:6 --recompute full --log skip-6.jsonl
expect 0 "${skip[@]}" --pe 3 --strategy pipeline --mesh pipeline:3 --pipeline-schedule gpipe --log skip-g.jsonl
expect 0 "${skip[@]}" --pe 2 --strategy pipeline --mesh pipeline:2 --pipeline-schedule interleaved \
    --virtual-stages 3 --log skip-i.jsonl

# Zero-bubble sums the same gradients in the same order as 1f1b: to the bit, with an odd number of micro-batches too.
odd=(--pe 3 --strategy pipeline --mesh pipeline:3 --batch 15 --micro-batches 5)
expect 0 "${skip[@]}" --pe 3 --strategy pipeline --mesh pipeline:3 --pipeline-schedule zero-bubble --log skip-z.jsonl
expect 0 "${skip[@]}" "${odd[@]}" --log odd-1f1b.jsonl
expect 0 "${skip[@]}" "${odd[@]}" --pipeline-schedule zero-bubble --log odd-zero.jsonl
expect 0 "${skip[@]}" "${odd[@]}" --pipeline-schedule zero-bubble --recompute full --log odd-again.jsonl
expect 0 "${gpt[@]}" --pe 4 --strategy pipeline --mesh pipeline:4 --log gpt-1.jsonl
expect 0 "${gpt[@]}" --pe 4 --strategy pipeline --mesh pipeline:4 --pipeline-schedule zero-bubble --log gpt-z.jsonl

expect 0 "${gpt[@]}" --log gpt.jsonl
expect 0 "${gpt[@]}" --pe 4 --strategy data+pipeline --mesh data:2,pipeline:2 --log gpt-d.jsonl
expect 0 "${gpt[@]}" --pe 4 --strategy 3d --mesh pipeline:2,tensor:2 --log gpt-t.jsonl

# Five updates on two stages, the rest on one rank, and the other way round.
expect 0 "${skip[@]}" --steps 5 --pe 2 --strategy pipeline --mesh pipeline:2 --checkpoint one --log skip-r1.jsonl
expect 0 "${skip[@]}" --checkpoint one --resume --log skip-r1.jsonl
expect 0 "${skip[@]}" --steps 5 --checkpoint three --log skip-r3.jsonl
expect 0 "${skip[@]}" --pe 3 --strategy pipeline --mesh pipeline:3 --checkpoint three --resume --log skip-r3.jsonl
expect 0 eval three --model skip.yaml --data synthetic --samples 200

python3 - <<'PY' || fail "losses differ from those of one rank"
import glob, json

def losses(name):
    return [line["loss"] for line in map(json.loads, open(name)) if "step" in line]

for model in ("skip", "gpt"):
    serial = losses(f"{model}.jsonl")
    for name in glob.glob(f"{model}-*.jsonl"):
        other = losses(name)
        assert len(other) == len(serial), name
        worst = max(abs(a - b) / abs(a) for a, b in zip(serial, other))
        print(f"{name}: {worst:.2e}")
        assert worst <= 1e-5, (name, worst)
for one, other in (("odd-1f1b", "odd-zero"), ("odd-1f1b", "odd-again"), ("gpt-1", "gpt-z")):
    assert losses(f"{one}.jsonl") == losses(f"{other}.jsonl"), other
PY

expect 2 "${skip[@]}" --pe 2 --strategy pipeline --mesh pipeline:2 --virtual-stages 2
has err "interleaved"
finish
