#!/usr/bin/env bash
# Experts with a capacity: planned, simulated, exported, and refused by the trainer in one line.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

cat >full.yaml <<'YAML'
paradl: model/1
name: full
input: {tokens: 64, vocabulary: 100}
layers:
  - embedding: {out: 64}
  - rms_norm:
  - linear: {out: 192, bias: false}
  - attention: {heads: 8, causal: true, rotary: true}
  - linear: {out: 64, bias: false}
  - rms_norm:
  - moe: {experts: 8, top_k: 2, hidden: 96, gated: true, capacity_factor: 1.25}
  - linear: {out: 100, bias: false}
  - cross_entropy:
YAML
sed 's/, capacity_factor: 1.25//' full.yaml >dropless.yaml
request=(--system dgx-h100 -n 8 --batch 64 --precision bf16 --optimizer adam --strategy tensor)
for model in full dropless; do
    expect 0 plan --model $model.yaml "${request[@]}" --json -o $model.plan.yaml
    mv out $model.json
    expect 0 simulate $model.plan.yaml
done
python3 - <<'PY' || fail "full experts take longer"
import json
a, b = (json.load(open(name + ".json"))["candidates"][0] for name in ("full", "dropless"))
assert a["compute_s"] > b["compute_s"] and a["memory_bytes"] > b["memory_bytes"], (a["compute_s"], b["compute_s"])
PY
expect 0 plan --model full.yaml "${request[@]}" --export megatron -o megatron
has megatron/megatron_args.sh "moe-expert-capacity-factor 1.25"
has megatron/megatron_args.sh "moe-pad-expert-input-to-capacity"
expect 0 plan --model full.yaml "${request[@]}" --export nemo -o nemo
has nemo/nemo_pretrain.py "moe_expert_capacity_factor=1.25"
expect 0 model import full.yaml -o again.yaml
has again.yaml "capacity_factor: 1.25"
expect 2 train --model full.yaml --data synthetic --samples 16 --batch 4 --steps 1
has err "moe with capacity_factor is planned and simulated, no kernel computes it yet"
[ "$(wc -l <err)" -eq 1 ] || fail "more than a line: $(cat err)"
expect 0 train --model dropless.yaml --data synthetic --samples 16 --batch 4 --steps 1 --no-valid --quiet
sed 's/1.25/-1/' full.yaml >negative.yaml
expect 2 plan --model negative.yaml "${request[@]}"
has err "negative.yaml:11"

finish
