#!/usr/bin/env bash
# train and eval: log, summary, trace, checkpoints, bit-identical resume, stopping by a signal, other rank counts.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

run=(train --model lenet --data synthetic --samples 640 --batch 32 --lr 0.02 --threads 1 --augment crop:2,flip)

# A straight run of 30 updates: the log, the table and the JSON document.
expect 0 "${run[@]}" --steps 30 --log straight.jsonl --checkpoint straight --checkpoint-every 15 --trace trace.json
has out "projected"
has err "step 30/30"
python3 - <<'PY' || fail "log or trace"
import json

lines = [json.loads(line) for line in open("straight.jsonl")]
steps = [line for line in lines if "step" in line]
epochs = [line for line in lines if "train_loss" in line]
assert [line["step"] for line in steps] == list(range(1, 31))
for key in "epoch loss lr samples_per_s step_s compute_s comm_s io_s".split():
    assert all(key in line for line in steps), key
assert epochs and all(key in epochs[-1] for key in "epoch valid_loss valid_accuracy epoch_s hidden".split())
head, end = lines[0], lines[-1]["summary"]
assert head["paradl"] == "run/1" and head["command"][:2] == ["paradl", "train"] and "straight.jsonl" in head["command"]
assert len(head["model_hash"]) == 16 and head["ranks"] == 1 and end["updates"] == 30 and end["model"] == head["model"]
assert steps[-1]["loss"] < 0.8 * steps[0]["loss"]
events = json.load(open("trace.json"))["traceEvents"]
names = {event["name"] for event in events}
titles = {(e["name"], e.get("tid"), e["args"]["name"]) for e in events if e["ph"] == "M"}
assert titles == {("process_name", None, "rank 0"), ("thread_name", 0, "computation")}
assert {"forward conv1", "backward fc1", "update"} <= names, names
PY

# The same in two halves is the same to the last bit, also in the optimizer's state.
expect 0 "${run[@]}" --steps 15 --checkpoint halves --quiet
expect 0 "${run[@]}" --steps 30 --checkpoint halves --resume
has err "resumed from halves/step-00000015"
for file in model state; do
    cmp straight/step-00000030/$file.safetensors halves/step-00000030/$file.safetensors ||
        fail "a resumed run differs in $file"
done
expect 0 "${run[@]}" --steps 30 --checkpoint halves --resume
has out "nothing left to do"

# eval: the same score on another number of ranks and with another batch, 7 of which do not divide the samples.
expect 0 eval straight --data synthetic --samples 640 --json
cp out one
expect 0 eval straight/step-00000030 --data synthetic --samples 640 --batch 7 --pe 2 --json
python3 - <<'PY' || fail "eval on 2 ranks"
import json

a, b = json.load(open("one")), json.load(open("out"))
assert a["samples"] == b["samples"] and abs(a["loss"] - b["loss"]) <= 1e-5 * a["loss"], (a, b)
assert abs(a["accuracy"] - b["accuracy"]) < 1e-6, (a, b)
PY

# A signal ends the run after the update at hand, with a checkpoint from which it goes on.
"$PARADL" "${run[@]}" --steps 100000 --no-valid --checkpoint stopped --quiet >out 2>err &
pid=$!
sleep 1
kill -TERM $pid
wait $pid || fail "a stopped run fails: $(cat err)"
has out "stopped after"
ls -d stopped/step-* >/dev/null || fail "no checkpoint after SIGTERM"

# 0 is a number like others: a rate of 0 changes no weight, no updates leave the initial weights.
expect 0 "${run[@]}" --steps 0 --checkpoint initial
has out "initial weights"
expect 0 "${run[@]}" --steps 3 --lr 0 --no-valid --checkpoint still --log still.jsonl
has still.jsonl '"lr": 0,'
python3 - <<'PY' || fail "weights after no updates and after a rate of 0"
import json, struct


def tensors(path):
    data = open(path + "/model.safetensors", "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    return data[8 + length :]


assert tensors("initial/step-00000000") == tensors("still/step-00000003")
PY
expect 2 "${run[@]}" --steps 0
has err "--checkpoint"
expect 2 "${run[@]}" --steps 1 --max-memory 0
has err "--max-memory: expected more than 0"

# What cannot work is refused in one line.
refuse() {
    local text=$1
    shift
    expect 2 "$@"
    [ "$(wc -l <err)" -eq 1 ] || fail "more than one line: $(cat err)"
    has err "$text"
}
refuse "say how long" "${run[@]}"
refuse "fewer than a batch" "${run[@]}" --steps 1 --batch 2000
refuse "resume needs" "${run[@]}" --steps 1 --resume
refuse "none of crop" "${run[@]}" --steps 1 --augment mirror
refuse "micro-batches" "${run[@]}" --steps 1 --micro-batches 5
refuse "--batch 32" "${run[@]}" --steps 40 --batch 16 --checkpoint halves --resume
refuse "of another model" eval straight --model resnet-tiny --data synthetic
refuse "no schedule" "${run[@]}" --steps 1 --algorithm foo
refuse "fewer than a batch" "${run[@]}" --steps 1 --samples 20
refuse "fewer than a batch" "${run[@]}" --steps 1 --samples 20 --workers 2 --aggregate local
sed 's/- cross_entropy: {name: loss}/- cross_entropy: {name: loss}\n  - relu: {name: after}/' "$SOURCE/share/models/lenet.yaml" >after.yaml
refuse "after.yaml:21: layer after" train --model after.yaml --data synthetic --steps 1
has err "reads the loss loss"
refuse "unknown model" train --model lenett --data synthetic --steps 1
finish
