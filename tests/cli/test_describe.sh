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

# A network that was exported for inference has lost its norms: said wherever its file is used, and only then.
onnx=$SOURCE/tests/model/onnx
lost="resnet18_folded.onnx: the file was exported for inference: batch norms are folded into 20 of 20 convolutions"
expect 0 model import "$onnx/resnet18_folded.onnx" -o folded.yaml
has err "warning: $onnx/$lost"
[ "$(wc -l <err)" -eq 1 ] || fail "more than one line: $(cat err)"
expect 0 plan --model "$onnx/resnet18_folded.onnx" --system selene --pe 1 --strategy data --batch 8 -o folded-plan.yaml
has err "$lost"
expect 0 simulate folded-plan.yaml
has err "$lost"
expect 0 train folded-plan.yaml --data synthetic --samples 8 --device dry
has err "$lost"
for name in resnet18 vgg16; do
    expect 0 model import "$onnx/$name.onnx" -o quiet.yaml
    [ ! -s err ] || fail "$name: $(cat err)"
done
# What is not supported is wrong input, not a failure of the system.
expect 2 model import "$onnx/bad_operator.onnx" -o no.yaml
has err "the operator is not supported"
[ ! -e no.yaml ] || fail "a file was written"

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
has out "classes"
for list in "model" "system" "data" "topo" "coll"; do
    expect 0 $list list --json
    python3 - $list <<'PY' || fail "$list list --json"
import json, sys
document = json.load(open("out"))
assert document["paradl"].endswith("-list/1") and document["command"][0] == "paradl", document
key, = set(document) - {"paradl", "version", "command"}
rows = document[key]
assert len(rows) >= 10 and all(row.get("name") or row["algorithm"] for row in rows), document
first = {"model": ("parameters", "macs", "description"), "system": ("pe", "device", "description"),
         "data": ("samples", "bytes_per_sample", "shape", "path"), "topo": ("description",),
         "coll": ("collective", "description")}[sys.argv[1]]
assert all(column in row for row in rows for column in first), rows[0]
PY
done
expect 0 coll verify ring --ranks 5 --json
python3 - <<'PY' || fail "coll verify --json"
import json
v = json.load(open("out"))
assert v["right"] is True and v["ranks"] == 5 and v["algorithm"] == "ring" and v["elements"] == 20, v
assert abs(v["sent_vectors"] - 1.6) < 1e-9 and v["steps"] == 8, v
PY
# A file may be standard output; what is said besides goes to standard error.
expect 0 model import lenet -o -
cp out piped.yaml
has err "written to standard output"
expect 0 model show piped.yaml
has out "parameters"
expect 0 plan --model lenet --system local --pe 1 --batch 8 --strategy data -o -
grep -q '^paradl: plan/1' out || fail "plan -o -: $(head -c 200 out)"
has err "best: data"
cp out piped-plan.yaml
"$PARADL" simulate piped-plan.yaml --trace /dev/stdout 2>err | python3 -m json.tool >/dev/null || fail "--trace /dev/stdout"
expect 2 plan --model lenet --system local --pe 1 --batch 8 -o - --json
has err "--json is written to standard output: give --output a file"
expect 0 train --model lenet --data synthetic --samples 64 --steps 2 --log - --quiet
python3 -c 'import json; assert [r["step"] for r in map(json.loads, open("out")) if "step" in r] == [1, 2]' ||
    fail "train --log -: $(head -c 300 out)"
[ ! -e - ] || fail "a file called - was written"

expect 0 data info imagenet --json
python3 - <<'PY' || fail "data info --json"
import json
info = json.load(open("out"))
assert info["samples"] == 1281167 and info["shape"] == [3, 224, 224], info
assert info["target"] == "class" and info["classes"] == 1000, info
PY

# Everything that train reads is described: arrays, text, token files, folders.
python3 - <<'PY'
import struct
def npy(path, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
npy("digits.npy", "|u1", "(40, 28, 28)", bytes(40 * 784))
npy("digits.labels.npy", "<i8", "(40,)", b"".join(struct.pack("<q", i % 7) for i in range(40)))
open("own.txt", "w").write("the quick brown fox jumps over the lazy dog. " * 40)
open("ids.bin", "wb").write(struct.pack("<2000H", *(i % 90 for i in range(2000))))
PY
mkdir -p empty
for path in digits.npy ./digits.npy; do
    expect 0 data info $path --json
    python3 - <<'PY' || fail "data info $path: $(cat out)"
import json
info = json.load(open("out"))
assert info["samples"] == 36 and info["shape"] == [1, 28, 28] and info["classes"] == 7, info
PY
done
expect 0 data info own.txt
has out "vocabulary  28"
expect 0 data info ids.bin --json
grep -q '"vocabulary": 90' out || fail "the vocabulary of a token file: $(cat out)"
expect 0 plan --model lenet --system abci-v --pe 1 --data digits.npy
has out "36 samples"
expect 2 plan --model resnet50 --system abci-v --pe 1 --data own.txt
has err "own.txt: holds tokens, the model reads 3x224x224"
expect 2 data info ./empty
has err "no data in it that can be read"
expect 2 data info digit.npy
has err "neither a file or folder nor a built-in name"
finish
