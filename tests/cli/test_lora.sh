#!/usr/bin/env bash
# LoRA: plans, plan files, documents and models with adapters; training of them alone, on one rank and on several.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

# 12 blocks, rank 8: queries, keys and values of 768 to 2,304, and the projection behind attention.
adapters=$((12 * 8 * (768 + 2304 + 768 + 768)))
request=(--model gpt2-124m --system dgx-h100 -n 8 --batch 64 --precision bf16 --optimizer adam)
expect 0 plan "${request[@]}" --lora 8 --json -o lora.yaml
mv out adapted.json
has lora.yaml "lora: {rank: 8, layers: attention}"
expect 0 plan "${request[@]}" --json
python3 - "$adapters" <<'PY' || fail "the document of a plan with adapters"
import json, sys
a, whole = json.load(open("adapted.json")), json.load(open("out"))
assert a["trained_parameters"] == int(sys.argv[1]) and a["lora"] == {"rank": 8, "layers": "attention"}
assert a["model_parameters"] == whole["model_parameters"] + a["trained_parameters"] and "lora" not in whole
assert whole["trained_parameters"] == whole["model_parameters"]
assert a["candidates"][0]["total_s"] < whole["candidates"][0]["total_s"]
memory = a["candidates"][0]["memory"]
assert abs(memory["optimizer"] - 12 * a["trained_parameters"]) < 1 or a["candidates"][0]["sharding"] != "none", memory
PY
expect 0 plan "${request[@]}" --lora 8 --lora-layers qkv
has out "295 k of them trained"
# The plan file is read again, simulated, and says so where its model does not fit.
expect 0 simulate lora.yaml
has out "memory"
sed 's/rank: 8/rank: 9/' lora.yaml >other.yaml
expect 2 simulate other.yaml
has err "model gpt2-124m changed since the plan was made"
sed 's/rank: 8/rank: 4096/' lora.yaml >other.yaml
expect 2 simulate other.yaml
has err "has 768 channels, choose less"
sed 's/layers: attention/layers: some/' lora.yaml >other.yaml
expect 2 simulate other.yaml
has err "other.yaml:4: "
expect 0 report lora.yaml -o page.html
has page.html "442 k are trained: adapters of rank 8 (attention)"

# Refused in one line.
expect 2 plan "${request[@]}" --lora 8 --mode inference
has err "--lora is about training"
expect 2 plan "${request[@]}" --lora 8 --export megatron -o folder
has err "megatron would train all weights, and this plan only some"
expect 0 plan "${request[@]}" --lora 8 --export slurm -o slurm
has slurm/plan.yaml "lora: {rank: 8, layers: attention}"
expect 2 plan "${request[@]}" --lora-layers all
has err "give their rank with --lora"
expect 2 plan --model resnet50 --system abci-v -n 4 --lora 8
has err "resnet50 has no attention"
[ "$(wc -l <err)" -eq 1 ] || fail "more than a line: $(cat err)"

# A model file with adapters.
expect 0 model import gpt-char-small --lora 4 --lora-layers all -o adapted.yaml
has adapted.yaml "frozen: true"
expect 0 model show adapted.yaml --json
has out '"trained_parameters":'

# Training: the same losses on one rank and on several, frozen weights keep their bits.
train=(--model gpt-char-small --data synthetic --samples 64 --batch 8 --lora 4 --optimizer adamw --lr 0.01 --no-valid --quiet)
expect 0 train "${train[@]}" --steps 0 --checkpoint before
expect 0 train "${train[@]}" --steps 5 --checkpoint serial --log serial.jsonl
same() {
    local name=$1
    shift
    expect 0 train "${train[@]}" --steps 5 --checkpoint "$name" --log "$name.jsonl" "$@"
    python3 - "$name" <<'PY' || fail "$name: losses and weights"
import glob, json, struct, sys
def losses(name):
    return [json.loads(line)["loss"] for line in open(name + ".jsonl") if '"lr"' in line]
def weights(folder):
    blob = open(sorted(glob.glob(folder + "/step-*/model.safetensors"))[-1], "rb").read()
    size = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + size])
    return {k: blob[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]]
            for k, v in head.items() if k != "__metadata__"}
name = sys.argv[1]
a, b = losses("serial"), losses(name)
assert len(b) == 5 and all(abs(x - y) < 2e-5 for x, y in zip(a, b)), (a, b)
before, after = weights("before"), weights(name)
assert before.keys() == after.keys()
for k in before:
    assert (before[k] == after[k]) == (".lora_" not in k), k
PY
}
same data -n 2
same shards -n 2 --sharding zero3
same tensor -n 2 --strategy tensor
same filter -n 2 --strategy filter
same channel -n 2 --strategy channel
same pipeline -n 2 --strategy pipeline --micro-batches 4
same divided -n 2 --strategy pipeline --micro-batches 4 --pipeline-schedule zero-bubble
same recomputed --recompute full --micro-batches 2
if [ -e "$(dirname "$PARADL")/lib/paradl/libparadl-cuda_emulated.so" ]; then
    PARADL_CUDA_EMULATED=1 same cuda --device cuda
fi

# A run goes on where it ended, and what it trained answers.
expect 0 train "${train[@]}" --steps 3 --checkpoint serial --overwrite
expect 0 train "${train[@]}" --steps 5 --checkpoint serial --resume --log resumed.jsonl
expect 2 train "${train[@]}" --lora 5 --steps 6 --checkpoint serial --resume

finish
