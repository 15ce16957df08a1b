#!/usr/bin/env bash
# No result comes from numbers that are not finite: neither a score, nor a checkpoint, nor the end of a run.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

# Batch norm and ReLU behind every convolution, and samples of which one may be bad.
cat >net.yaml <<'YAML'
paradl: model/1
name: net
input: {channels: 3, size: [16, 16]}
layers:
  - conv: {name: c1, out: 16, kernel: 3, pad: 1}
  - batch_norm: {name: b1}
  - relu: {name: r1}
  - max_pool: {name: p1, kernel: 2}
  - conv: {name: c2, out: 16, kernel: 3, pad: 1}
  - batch_norm: {name: b2}
  - relu: {name: r2}
  - max_pool: {name: p2, kernel: 2}
  - flatten
  - linear: {name: fc, out: 4}
  - cross_entropy
YAML
cat >samples.py <<'PY'
import random
import struct


def save(path, kind, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def make(name, bad, value):
    random.seed(1)
    numbers = [random.random() for _ in range(40 * 768)]
    if bad >= 0:
        numbers[bad * 768 + 100] = value
    save(name + ".npy", "<f4", (40, 3, 16, 16), struct.pack("<%df" % len(numbers), *numbers))
    save(name + ".labels.npy", "<i8", (40,), struct.pack("<40q", *(i % 4 for i in range(40))))


make("good", -1, 0)
make("infinite", 13, float("inf"))  # number 12 of those trained on
make("scored", 19, float("nan"))  # the second of those that validate
make("large", 5, 1e38)
PY
python3 samples.py
run=(train --model net.yaml --batch 8 --threads 1 --quiet)

# Weights: a score of NaNs is refused by the name of the tensor, and so is going on from them.
expect 0 "${run[@]}" --data good.npy --epochs 1 --lr 0.01 --checkpoint good
python3 - <<'PY'
import json
import struct

data = bytearray(open("good/step-00000004/model.safetensors", "rb").read())
length = struct.unpack("<Q", data[:8])[0]
tensors = json.loads(data[8 : 8 + length])
tensors.pop("__metadata__", None)  # a file of another program, without checksums
first = 8 + length + tensors["c2.weight"]["data_offsets"][0]
data[first : first + 4] = struct.pack("<f", float("nan"))
header = json.dumps(tensors).encode()
header += b" " * (-len(header) % 8)
open("bad.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + data[8 + length :])
PY
expect 1 eval bad.safetensors --model net.yaml --data good.npy --json
has err "tensor c2.weight"
has err "1 of 2304 values"
[ ! -s out ] || fail "a score is printed all the same: $(cat out)"

# Samples: the one that is bad is named as it is stored, whoever trains or scores it.
for more in "" "--pe 2 --sharding zero3 --clip 1" "--precision bf16" "--workers 2 --aggregate local"; do
    rm -rf kept
    expect 1 "${run[@]}" --data infinite.npy --epochs 3 --checkpoint kept $more
    has err "sample 13 of infinite.npy"
    has err "no checkpoint yet"
    [ -z "$(ls kept)" ] || fail "$more: a checkpoint of NaNs: $(ls kept)"
done
expect 1 "${run[@]}" --data scored.npy --epochs 1 --json
has err "sample 19 of scored.npy"
[ ! -s out ] || fail "a result is printed all the same: $(cat out)"
expect 1 eval good --data scored.npy
has err "sample 19 of scored.npy"
expect 1 "${run[@]}" --data large.npy --epochs 1
has err "samples reach 1e+38: scale them"

# Weights that the last update of all has written, on one of the ranks that share them; the rate is to blame.
expect 1 "${run[@]}" --data good.npy --steps 1 --no-valid --lr 1e38 --optimizer adamw --pe 2 --sharding zero2
grep -qE "^paradl: rank [01]: weight [a-z0-9.]+ is not finite after update 1 at learning rate 1e.38: lower the" err || fail "$(cat err)"

# A rate that is too high: layer or weight and update are named, and the last checkpoint that is good.
for more in "" "--pe 2 --strategy pipeline --micro-batches 2" "--ema 0.9"; do
    rm -rf kept
    expect 1 "${run[@]}" --data good.npy --epochs 3 --lr 1e30 --no-valid --checkpoint kept --checkpoint-every 1 $more
    has err "not finite at update 2: first in the output of layer"
    has err "lower the learning rate"
    has err "the latest checkpoint in kept is of update 1"
    [ "$(ls kept)" = step-00000001 ] || fail "$more: $(ls kept)"
done
finish
