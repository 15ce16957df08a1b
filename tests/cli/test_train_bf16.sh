#!/usr/bin/env bash
# train: tensors of 16 bits that are split give the losses of one rank in bf16, but for their rounding.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

small_gpt 0
run=(--data synthetic --samples 64 --no-valid --steps 8 --batch 6 --lr 0.003 --threads 1 --precision bf16 --quiet)
"$PARADL" train --model lenet "${run[@]}" --log lenet-serial.jsonl >out 2>err ||
    { grep -q "bf16" err && { echo "skipped: $(head -1 err)"; exit 77; }; }
expect 0 train --model gpt.yaml "${run[@]}" --log gpt-serial.jsonl
for case in "spatial spatial_0:2" "channel tensor:2" "data+tensor data:2,tensor:2"; do
    read -r strategy mesh <<<"$case"
    ranks=2
    [ "$strategy" != data+tensor ] || ranks=4
    expect 0 train --model lenet "${run[@]}" --strategy "$strategy" --mesh "$mesh" --pe $ranks --log lenet-"$strategy".jsonl
    [ "$strategy" != spatial ] || continue
    expect 0 train --model gpt.yaml "${run[@]}" --strategy "$strategy" --mesh "$mesh" --pe $ranks --log gpt-"$strategy".jsonl
done

python3 - <<'PY' || fail "losses differ from those of one rank"
import glob, json

def losses(name):
    return [line["loss"] for line in map(json.loads, open(name)) if "step" in line]

names = [name for name in glob.glob("*.jsonl") if "serial" not in name]
assert len(names) == 5, names
for name in names:
    pairs = list(zip(losses(name.split("-")[0] + "-serial.jsonl"), losses(name)))
    worst = max(abs(a - b) / abs(a) for a, b in pairs)
    print(f"{name}: {worst:.2e}")
    assert len(pairs) == 8 and worst <= 2e-2, (name, worst)
PY
finish
