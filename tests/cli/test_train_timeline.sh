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
PY
done
finish
