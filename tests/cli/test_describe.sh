#!/usr/bin/env bash
# model, system and data: what they print, and a model that goes through import and comes back.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

expect 0 model list
has out "resnet50"
expect 0 model show resnet50
has out "25,557,032 parameters (25.56 M)"
has out "4.09 GMAC"
has out "conv1 "
has out "7x7 / 2x2"
expect 0 model show resnet50 --batch 10
has out "40.89 GMAC"
has out "25,557,032 parameters"
expect 0 model show resnet50 --batch=2 --json
python3 - <<'PY' || fail "model show --json"
import json
model = json.load(open("out"))
assert model["parameters"] == 25557032 and model["batch"] == 2
assert sum(layer["parameters"] for layer in model["layers"]) == model["parameters"]
assert sum(layer["macs"] for layer in model["layers"]) == model["macs"]
PY

expect 0 model import "$SOURCE/tests/model/onnx/resnet18.onnx" -o imported.yaml
has out "written to imported.yaml"
expect 0 model show imported.yaml
cp out first
expect 0 model import imported.yaml --output again.yaml
expect 0 model show again.yaml
cmp -s first out || fail "a model that was written and read again differs"

expect 0 system list
has out "abci-v"
expect 0 system show abci-v
has out "4,352 x NVIDIA V100"
has out "leaf-group"
expect 0 system show abci-v --json
python3 -m json.tool out >/dev/null || fail "system show --json is not JSON"

expect 0 data list
has out "imagenet"
expect 0 data info imagenet
has out "1,281,167"
expect 0 data info imagenet --json
python3 -m json.tool out >/dev/null || fail "data info --json is not JSON"
finish
