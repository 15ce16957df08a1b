#!/usr/bin/env bash
# What is planned, simulated, listed and run has the same operations under the same names.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

for strategy in data spatial pipeline; do
    expect 0 plan --model lenet --system local --pe 2 --batch 16 --strategy $strategy -o plan.yaml --trace plan.json
    expect 0 simulate plan.yaml --trace simulated.json
    expect 0 train plan.yaml --device dry --rank 0 --threads 1 --trace dry.json
    expect 0 train plan.yaml --data synthetic --steps 1 --threads 1 --trace run.json
    python3 - <<'PY' || fail "operations of $strategy have other names when they run"
import json

def names(path):
    events = json.load(open(path))["traceEvents"]
    return [event["name"] for event in events if event["ph"] == "X" and event["pid"] == 0]

planned, listed, run = names("plan.json"), names("dry.json"), names("run.json")
assert planned == listed, (planned, listed)
assert planned == names("simulated.json")
assert [name for name in run if not name.startswith("wait for ")] == [name for name in planned if name != "load"]

def memory(path):
    return max(e["args"]["value"] for e in json.load(open(path))["traceEvents"] if e["ph"] == "C" and e["pid"] == 0)

assert memory("plan.json") == memory("run.json") == memory("simulated.json") > 0
# One file for all ranks, by one clock: what they do together they do at the same time.
slices = [e for e in json.load(open("run.json"))["traceEvents"] if e["ph"] == "X"]
spans = [(min(e["ts"] for e in slices if e["pid"] == rank), max(e["ts"] + e["dur"] for e in slices if e["pid"] == rank)) for rank in (0, 1)]
assert max(begin for begin, end in spans) < min(end for begin, end in spans) and spans[0][0] >= 0, spans
PY
done
finish
