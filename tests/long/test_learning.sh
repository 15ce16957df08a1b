#!/usr/bin/env bash
# What a run learns: LeNet on MNIST, a small ResNet on Fashion-MNIST, a character GPT on tinyshakespeare.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

# learns NAME FIELD TEST ARGUMENT...: the last validation in the log passes.
learns() {
    local name=$1 field=$2 condition=$3
    shift 3
    expect 0 train "$@" --log "$name.jsonl" --quiet
    python3 - "$name" "$field" "$condition" <<'PY' || fail "$name: $condition does not hold"
import json, sys

name, field, condition = sys.argv[1:]
values = [line[field] for line in map(json.loads, open(name + ".jsonl")) if field in line]
print(f"{name}: {field} {values[-1]:.4f}")
sys.exit(not eval(condition, {"x": values[-1]}))
PY
}

for set in mnist fashion-mnist; do expect 0 data get $set; done
learns mnist valid_accuracy "x >= 0.990" --model lenet --data mnist --epochs 5 --batch 64 --lr 0.05 --schedule cosine
learns fashion valid_accuracy "x >= 0.925" --model resnet-tiny --data fashion-mnist --epochs 10 --batch 64 --lr 0.1 \
    --weight-decay 5e-4 --nesterov --schedule cosine --warmup 200 --augment flip
learns shakespeare valid_loss "x <= 1.90" --model gpt-char-small --data tinyshakespeare --steps 2000 --batch 12 \
    --optimizer adamw --lr 0.003 --beta2 0.99 --weight-decay 0.1 --warmup 100 --schedule cosine --min-lr 0.0003 --clip 1
finish
