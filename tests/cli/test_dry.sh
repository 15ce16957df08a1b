#!/usr/bin/env bash
# train --device dry: the program of any rank of a plan, without MPI, samples or other ranks.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

dry=(train --device dry --model lenet --data mnist --batch 32 --threads 1)
expect 0 "${dry[@]}" --pe 2 --strategy spatial --rank 1 --trace trace.json
for text in "rank 1 of 2" redistribute "products, backward" "holds " "sends " "messages" "takes "; do has out "$text"; done
expect 0 "${dry[@]}" --pe 2 --strategy spatial --rank 1 --json
cp out spatial.json
# One rank of a thousand, and a stage in the middle of a pipeline.
expect 0 plan --model resnet50 --system abci-v --pe 1024 --strategy data+spatial --data imagenet -o big.yaml
expect 0 train --device dry big.yaml --rank 1023 --system abci-v --threads 1 --json
cp out big.json
expect 0 "${dry[@]}" --pe 3 --strategy pipeline --mesh pipeline:3 --micro-batches 4 --rank 1 --json
cp out stage.json

python3 - <<'PY' || fail "programs are not as expected"
import json

spatial, big, stage = (json.load(open(name)) for name in ("spatial.json", "big.json", "stage.json"))
for program in (spatial, big, stage):
    memory, sent = program["memory"], program["sent"]
    assert program["memory_bytes"] == sum(memory.values()), program
    assert abs(program["sent_bytes"] - sum(sent.values())) < 1
    per_op = sum(op["sent_bytes"] for op in program["ops"])
    assert abs(per_op - program["sent_bytes"]) < 1, (per_op, program["sent_bytes"])
    assert abs(program["seconds"] - sum(op["seconds"] for op in program["ops"])) <= 1e-9 + 1e-6 * program["seconds"]
    alive = [sum(b["bytes"] for b in program["buffers"] if b["space"] == "device" and b["first_op"] <= i <= b["last_op"])
             for i in range(len(program["ops"]))]
    assert 0 < max(alive) <= program["arena_bytes"], (max(alive), program["arena_bytes"])
    assert all(b["offset"] + b["bytes"] <= program["arena_bytes"] for b in program["buffers"] if b["space"] == "device")
    for op in program["ops"]:
        if "offset" in op:
            assert op["offset"] + op["bytes"] <= memory["activations"], op
assert spatial["sent"]["moves"] > 0 and spatial["sent"]["stages"] == 0
assert big["ranks"] == 1024 and big["sent"]["gradients"] > 1.9e8
assert stage["sent"]["stages"] > 0
assert sum(op["kind"] == "send" and op["name"].startswith("send gradient") for op in stage["ops"]) >= 4
assert [op["kind"] for op in spatial["ops"][-2:]] == ["result", "update"]
events = json.load(open("trace.json"))["traceEvents"]
slices = [event for event in events if event["ph"] == "X"]
assert [event["name"] for event in slices] == [op["name"] for op in spatial["ops"]]
assert max(event["ts"] + event["dur"] for event in slices) <= 1e6 * spatial["seconds"] * (1 + 1e-9)
PY

expect 2 "${dry[@]}" --pe 2 --rank 2
has err "ranks 0 to 1"
finish
