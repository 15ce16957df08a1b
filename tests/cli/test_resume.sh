#!/usr/bin/env bash
# Resuming: killed runs leave a whole log and whole checkpoints, damage is noticed, and no two runs share a folder.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

run=(train --model lenet --data synthetic --samples 640 --batch 32 --lr 0.02 --threads 1 --no-valid --quiet)
score=(--data synthetic --samples 640)

# Killed again and again, and once stopped, a run ends with the weights and the log of one that was not.
expect 0 "${run[@]}" --steps 60 --checkpoint-every 14 --checkpoint straight --log straight.jsonl
for end in 0.15:KILL 0.3:KILL 0.25:TERM 0.2:KILL; do
    "$PARADL" "${run[@]}" --steps 60 --checkpoint-every 14 --checkpoint killed --log killed.jsonl --resume >out 2>err &
    pid=$!
    sleep ${end%:*}
    kill -${end#*:} $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
done
printf '{"step": 61, "lo' >>killed.jsonl # torn, as a kill inside a write would leave it
expect 0 "${run[@]}" --steps 60 --checkpoint-every 14 --checkpoint killed --log killed.jsonl --resume
for file in model state; do
    cmp straight/step-00000060/$file.safetensors killed/step-00000060/$file.safetensors || fail "$file after kills"
done
cat >same.py <<'PY'
import json, sys

times = {"samples_per_s", "step_s", "compute_s", "comm_s", "io_s", "epoch_s", "valid_s"}
lines = lambda path: [json.loads(line) for line in open(path)]
read = lambda path: [{k: v for k, v in line.items() if k not in times} for line in lines(path) if "epoch" in line]
one, other = read(sys.argv[1]), read(sys.argv[2])
assert [line["step"] for line in other if "step" in line] == list(range(1, 61))
assert one == other
for path in sys.argv[1:]:
    assert lines(path)[0]["paradl"] == "run/1" and lines(path)[0]["after_step"] == 0
    assert [i for i, line in enumerate(lines(path), 1) if "summary" in line] == [len(lines(path))]
PY
python3 same.py straight.jsonl killed.jsonl || fail "the log after kills"

# Lines that an earlier version ran together are removed, and updates that are not in the log are named.
expect 0 "${run[@]}" --steps 10 --checkpoint mended --log mended.jsonl
sed -i '5{s/, "lr".*//;N;s/\n//}' mended.jsonl
expect 0 "${run[@]}" --steps 12 --checkpoint mended --log mended.jsonl --resume
python3 -c 'import json; print(*[l.get("step") or next(iter(l)) for l in map(json.loads, open("mended.jsonl"))])' >steps
[ "$(cat steps)" = "paradl 1 2 3 6 7 8 9 10 epoch paradl 11 12 epoch summary" ] || fail "the mended log has $(cat steps)"

# A file that is no log is not touched; the log of another run is replaced.
echo "name: mine" >mine.yaml
expect 2 "${run[@]}" --steps 1 --log mine.yaml
has mine.yaml "name: mine"
expect 0 "${run[@]}" --steps 2 --log mended.jsonl
[ "$(wc -l <mended.jsonl)" -eq 5 ] || fail "an old log stays: $(wc -l <mended.jsonl) lines"

# One run per folder; what is replaced stays until the first new checkpoint is whole.
expect 2 "${run[@]}" --steps 3 --checkpoint killed --log killed.jsonl
has err "--resume"
has err "--overwrite"
python3 same.py straight.jsonl killed.jsonl || fail "a refused run has changed the log"
expect 2 "${run[@]}" --steps 3 --checkpoint killed --resume --overwrite
expect 2 "${run[@]}" --steps 3 --overwrite
has err "add --checkpoint"
touch killed/step-00000060/notes.txt
expect 2 "${run[@]}" --steps 3 --checkpoint killed --overwrite
has err "holds other files"
rm killed/step-00000060/notes.txt
expect 0 "${run[@]}" --steps 3 --checkpoint killed --overwrite
[ "$(ls -A killed)" = "step-00000003" ] || fail "--overwrite leaves $(ls -A killed | xargs)"
rm -rf nets
expect 0 "${run[@]}" --epochs 1 --workers 4 --aggregate feddct --nets 2 --checkpoint nets
expect 2 "${run[@]}" --steps 3 --checkpoint nets --resume
has err "written with --aggregate feddct"
expect 2 "${run[@]}" --steps 3 --checkpoint nets
expect 0 "${run[@]}" --steps 3 --checkpoint nets --overwrite
[ "$(ls -A nets)" = "step-00000003" ] || fail "--overwrite leaves $(ls -A nets | xargs)"

# flip FILE OFFSET: one bit; a negative offset counts from the end.
flip() {
    python3 - "$@" <<'PY'
import sys

with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]), 2 if sys.argv[2][0] == "-" else 0)
    byte = file.read(1)[0]
    file.seek(-1, 1)
    file.write(bytes([byte ^ 4]))
PY
}

# Damage: the previous checkpoint is taken, with a line also of a quiet run; one that was asked for is refused.
cp -r straight damaged
flip damaged/step-00000060/model.safetensors -1000
expect 2 eval damaged/step-00000060 "${score[@]}"
has err "step-00000060/model.safetensors: tensor"
expect 0 eval damaged "${score[@]}"
has err "step-00000056 is taken instead"
expect 0 "${run[@]}" --steps 60 --checkpoint damaged --resume
has err "is damaged: it does not have the checksum"
cmp straight/step-00000060/model.safetensors damaged/step-00000060/model.safetensors || fail "resumed past damage"
for step in 56 60; do flip damaged/step-000000$step/state.safetensors 200; done
expect 1 "${run[@]}" --steps 70 --checkpoint damaged --resume
has err "damaged/step-00000060/state.safetensors"
expect 1 eval damaged "${score[@]}"

# Another run is refused by what differs, as it was and as it is; data are known by their content.
refuse() {
    local text=$1
    shift
    expect 2 "${run[@]}" --steps 5 --checkpoint known --resume "$@"
    has err "was written with $text: resume with the same options"
}
expect 0 "${run[@]}" --steps 3 --checkpoint known
refuse "--label-smoothing 0, this run has 0.1" --label-smoothing 0.1
refuse "--augment none, this run has crop:2,flip" --augment crop:2,flip
refuse "--no-normalise no, this run has yes" --no-normalise
refuse "--precision fp32, this run has bf16" --precision bf16
refuse "--momentum 0.9, this run has 0.8" --momentum 0.8
refuse "--optimizer sgd, this run has lars" --optimizer lars
refuse "--hide-method none, this run has loss" --hide 0.3
refuse "--shuffle global, this run has partial:0.5" --shuffle partial:0.5 --workers 4
expect 2 "${run[@]}" --steps 5 --checkpoint known --resume --samples 650
has err "was written with --data synthetic (640 samples of 1 x 28 x 28"
has err "this run has synthetic (650 samples"
# The rate may change on purpose, and that is said.
expect 0 "${run[@]}" --steps 4 --checkpoint known --resume --lr 0.01 --clip 1
has err "the run goes on with --lr 0.01 instead of 0.02, --clip 1 instead of 0"
python3 - <<'PY'
import struct

def npy(path, shape, kind, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data)

import os
for name, base in (("a", 3), ("b", 5)):
    os.mkdir(name)
    pixels = bytes((i * base + i // 784) % 251 for i in range(200 * 784))
    npy(name + "/x.npy", (200, 1, 28, 28), "|u1", pixels)
    npy(name + "/x.labels.npy", (200,), "<i8", b"".join(struct.pack("<q", i % 10) for i in range(200)))
PY
array=(train --model lenet --batch 32 --lr 0.02 --threads 1 --no-valid --quiet --checkpoint arrays)
expect 0 "${array[@]}" --data a/x.npy --steps 3
mkdir moved && mv a/x.npy a/x.labels.npy moved
expect 0 "${array[@]}" --data moved/x.npy --steps 4 --resume
expect 2 "${array[@]}" --data b/x.npy --steps 5 --resume
has err "was written with --data x.npy (180 samples"

# A checkpoint keeps its model: it is scored from anywhere, and when the file is gone.
cp "$SOURCE/share/models/lenet.yaml" mine.yaml
expect 0 train --model mine.yaml "${run[@]:3}" --steps 2 --checkpoint mine
rm mine.yaml
(cd / && "$PARADL" eval "$OLDPWD/mine" "${score[@]}") >out 2>err || fail "eval from elsewhere: $(cat err)"
flip mine/step-00000002/model.yaml 100
expect 2 eval mine/step-00000002 "${score[@]}"
has err "model.yaml is damaged"

# What a killed writer left goes, also when nothing is left to do.
mkdir straight/.partial-abcdef && touch straight/.partial-abcdef/model.safetensors
expect 0 "${run[@]}" --steps 60 --checkpoint-every 14 --checkpoint straight --resume
[ ! -e straight/.partial-abcdef ] || fail "a killed writer's folder stays"

# Weights without the optimizer's state are no beginning.
rm straight/step-00000056/state.safetensors straight/step-00000060/state.safetensors
expect 1 "${run[@]}" --steps 70 --checkpoint straight --resume
has err "straight/step-00000060 has no state.safetensors"
expect 2 "${run[@]}" --steps 70 --checkpoint straight/step-00000060 --resume
has err "give the folder that it is in"
expect 0 eval straight/step-00000060/model.safetensors --model lenet "${score[@]}"

# A path in a plan is relative to the plan, from wherever it is used; where older plans meant this folder, a line says so.
mkdir plans
cp "$SOURCE/share/models/lenet.yaml" plans/mine.yaml
ask=(--system local --pe 1 --batch 32 --strategy data)
(cd plans && "$PARADL" plan --model mine.yaml "${ask[@]}" -o near.yaml) >out 2>err || fail "plan: $(cat err)"
expect 0 plan --model plans/mine.yaml "${ask[@]}" -o plans/far.yaml
for plan in near far; do
    (cd / && "$PARADL" train "$OLDPWD/plans/$plan.yaml" "${score[@]}" --steps 1 --no-valid --quiet) >out 2>err ||
        fail "$plan.yaml from elsewhere: $(cat err)"
done
expect 0 train plans/near.yaml "${score[@]}" --steps 1 --no-valid --quiet
[ ! -s err ] || fail "a line too many: $(cat err)"
sed 's|^model: .*|model: plans/mine.yaml|' plans/far.yaml >plans/old.yaml
expect 0 train plans/old.yaml "${score[@]}" --steps 1 --no-valid --quiet
has err "plans/old.yaml names plans/mine.yaml, which is not beside it"
expect 0 simulate plans/old.yaml
# A name of a built-in model may have a dot.
expect 0 plan --model megatron-1.7b --system selene --pe 8 --batch 8 --strategy data -o plans/dot.yaml
expect 0 simulate plans/dot.yaml
rm plans/mine.yaml
expect 2 train plans/near.yaml "${score[@]}" --steps 1
has err "plans/near.yaml:"
finish
