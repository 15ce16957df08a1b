#!/usr/bin/env bash
# calibrate: a quick one writes a description that system, plan and train take; mistakes are refused before measuring.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

# One rank without progress, and no other model than a small one besides the standard ones.
expect 0 calibrate -o here.yaml --quick --quiet --pe 1 --threads 1 --model lenet
has out "here.yaml"
[ ! -s err ] || fail "--quiet says something: $(head -c 200 err)"
has here.yaml "paradl: system/1"
has here.yaml "name: here"
has here.yaml "measured:"
has here.yaml "layer: conv,"
has here.yaml "layer: update,"
has here.yaml "oneDNN"
expect 0 system show ./here.yaml
has out "here"
expect 0 plan --model lenet --system ./here.yaml --data mnist --pe 1 --batch 16
expect 0 train --model lenet --data synthetic --samples 64 --batch 16 --steps 3 --threads 1 --no-valid --quiet \
    --system ./here.yaml
for class in "products, forward" "products, backward" "element-wise" "update"; do has out "$class"; done
expect 0 train --model lenet --data synthetic --samples 64 --batch 16 --steps 3 --threads 1 --no-valid --quiet \
    --system ./here.yaml --json
python3 - <<'PY' || fail "classes in the JSON document"
import json

run = json.load(open("out"))
assert set(run["classes"]) == set(run["projected"]["classes"])
assert sum(run["projected"]["classes"].values()) > 0.9 * run["projected"]["step_s"]
PY

# Mistakes.
expect 2 calibrate
has err "output"
expect 1 calibrate -o nowhere/here.yaml --quick --pe 1
has err "nowhere/here.yaml"
expect 2 calibrate -o other.yaml --quick --pe 1 --model no-such-model --quiet
has err "no-such-model"
[ ! -e other.yaml ] || fail "a failed calibration leaves a file"
expect 2 calibrate -o other.yaml --threads 0
# Without mpirun there is one device.
PARADL_MPIRUN=./nowhere expect 2 calibrate -o other.yaml --quick --quiet --pe 2 --model no-such-model
has err "messages are not"

# Rows by hand: a wrong one names its line.
sed 's/layer: update, work/layer: updates, work/' here.yaml >wrong.yaml
expect 2 system show ./wrong.yaml
has err "wrong.yaml:"
sed 's/seconds: \[0, 0\]/seconds: [0]/' here.yaml >wrong.yaml
expect 2 system show ./wrong.yaml
has err "two numbers"
finish
