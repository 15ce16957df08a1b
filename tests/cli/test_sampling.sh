#!/usr/bin/env bash
# Which samples are trained on: workers in one process against as many ranks, exchange, hidden samples, bit-identical
# resume inside an epoch and between two, and what is refused.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

model="$SOURCE/examples/experiments/models/bn-small.yaml"
run=(train --model "$model" --data synthetic --samples 252 --batch 24 --lr 0.001 --threads 1 --direct --check-samples
     --quiet)

# alike A B: the losses of two logs agree step by step, and so do the fields of their epochs.
alike() {
    python3 - "$1" "$2" <<'PY' || fail "$1 and $2 differ"
import json, sys

logs = [[json.loads(line) for line in open(name)] for name in sys.argv[1:]]
steps = [[line for line in log if "step" in line] for log in logs]
epochs = [[line for line in log if "train_loss" in line] for log in logs]
assert len(steps[0]) == len(steps[1]) > 0
worst = max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(*steps))
assert worst <= 2e-5, worst
for a, b in zip(*epochs):
    assert abs(a["valid_loss"] - b["valid_loss"]) <= 1e-5 * abs(a["valid_loss"]), (a, b)
    for key in "steps hidden exchanged partners seen".split():
        assert a.get(key) == b.get(key), (key, a, b)
PY
}

# One process with M workers has the numbers of M ranks, batch-norm statistics included. 252 samples are not a multiple
# of the batch, and 252 / 4 = 63 not one of a worker's part of it.
for shuffle in global local partial:0.3 paired:0.3; do
    expect 0 "${run[@]}" --epochs 3 --workers 4 --shuffle $shuffle --log one.jsonl
    expect 0 "${run[@]}" --epochs 3 --pe 4 --shuffle $shuffle --log four.jsonl
    alike one.jsonl four.jsonl
done
expect 0 "${run[@]}" --epochs 3 --pe 2 --workers 4 --shuffle partial:0.3 --partition sorted --log two.jsonl
expect 0 "${run[@]}" --epochs 3 --workers 4 --shuffle partial:0.3 --partition sorted --log one.jsonl
alike one.jsonl two.jsonl
expect 0 "${run[@]}" --epochs 3 --workers 3 --shuffle local --hide 0.5 --hide-threshold 0 --hide-scope local --log one.jsonl
expect 0 "${run[@]}" --epochs 3 --pe 3 --shuffle local --hide 0.5 --hide-threshold 0 --hide-scope local --log three.jsonl
alike one.jsonl three.jsonl

# Under every strategy the same samples are hidden.
hide=(train --model lenet --data synthetic --samples 320 --batch 32 --lr 0.004 --threads 1 --direct --quiet --epochs 5
      --hide 0.4 --hide-without reduce)
expect 0 "${hide[@]}" --log serial.jsonl
for strategy in data spatial filter pipeline; do
    expect 0 "${hide[@]}" --pe 2 --strategy $strategy --mesh $([ $strategy = spatial ] && echo spatial_0 ||
        ([ $strategy = filter ] && echo tensor || echo $strategy)):2 --log other.jsonl
    alike serial.jsonl other.jsonl
done
python3 - <<'PY' || fail "hidden samples"
import json

epochs = [line for line in map(json.loads, open("serial.jsonl")) if "train_loss" in line]
assert epochs[0]["hidden"] == 0 and epochs[0]["steps"] == 10
assert epochs[-1]["hidden"] > 0, epochs
assert all(epoch["hidden_fraction"] <= epoch["hidden_most"] + 1e-9 for epoch in epochs)
assert all(epoch["steps"] == -(-(320 - epoch["hidden"]) // 32) for epoch in epochs)
PY

# Every method trains, and hides what it says.
for method in loss random importance selective unbiased; do
    expect 0 "${hide[@]}" --hide-method $method --log $method.jsonl
done
expect 0 "${hide[@]}" --hide-confidence batch --refresh-mode training --hide-rate most --refresh-every 2 --hide-trim 0.05

# Stopped inside an epoch and between two, a run goes on with the same bits.
for options in "--shuffle paired:0.3 --workers 6" "--shuffle partial:0.5 --workers 6 --partition sorted" \
               "--hide 0.5 --hide-threshold 0.1" "--shuffle local --workers 3 --hide 0.5 --hide-threshold 0.1"; do
    rm -rf straight halves
    read -ra more <<<"$options"
    expect 0 "${run[@]}" "${more[@]}" --epochs 4 --checkpoint straight
    for stop in 11 15 26; do
        expect 0 "${run[@]}" "${more[@]}" --epochs 4 --steps $stop --checkpoint halves --resume
    done
    expect 0 "${run[@]}" "${more[@]}" --epochs 4 --checkpoint halves --resume
    last=$(ls straight | tail -1)
    for file in model state; do
        cmp straight/$last/$file.safetensors halves/$last/$file.safetensors ||
            fail "$options: a resumed run differs in $file"
    done
done
rm -rf straight halves
ranks=("${run[@]}" --epochs 3 --pe 2 --workers 4 --shuffle partial:0.4)
expect 0 "${ranks[@]}" --checkpoint straight
expect 0 "${ranks[@]}" --steps 14 --checkpoint halves
expect 0 "${ranks[@]}" --checkpoint halves --resume
cmp straight/step-00000033/model.safetensors halves/step-00000033/model.safetensors || fail "resumed on two ranks"
expect 2 "${run[@]}" --epochs 5 --checkpoint halves --resume
has err "resume with the same options"

# Refused in one line.
expect 2 "${run[@]}" --epochs 1 --shuffle partial:1.5
has err "partial"
expect 2 "${run[@]}" --epochs 1 --shuffle sideways
has err "global, local"
expect 2 "${run[@]}" --epochs 1 --hide 1.2
has err "--hide"
expect 2 "${run[@]}" --epochs 1 --hide 0.3 --hide-threshold 7
has err "--hide-threshold"
expect 2 "${run[@]}" --epochs 1 --workers 7
has err "multiple of 7"
expect 2 train --model "$model" --data synthetic --samples 30 --batch 60 --epochs 1 --workers 60 --shuffle local
has err "fewer"
expect 2 "${run[@]}" --epochs 1 --hide 0.3 --hide-scope local
has err "--shuffle local"
expect 2 "${run[@]}" --epochs 1 --store memory
has err "--shuffle local"
finish
