#!/usr/bin/env bash
# predict: outputs equal the losses of eval and a forward pass by hand, formats, ranks, ONNX, what is refused.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"
export PYTHONPATH=$SOURCE/tests/cli

data=(--data synthetic --samples 640)
expect 0 train --model lenet "${data[@]}" --batch 32 --lr 0.02 --threads 1 --steps 6 --checkpoint run --quiet --no-valid
expect 0 eval run "${data[@]}" --json
cp out eval.json
expect 0 predict run "${data[@]}" --json -o out.npy --quiet
cp out predict.json
expect 0 predict run "${data[@]}" -o out.csv
has out "predictions written to out.csv"
has out "samples/s"
has out "projected"
expect 0 predict run "${data[@]}" -o out.json --top-k 3 --batch 7 --pe 2
expect 0 predict run "${data[@]}" --top-k 1
cp out table.csv
has err "a batch of 64: median"
python3 - <<'PY' || fail "outputs"
import csv, json, math, struct

scored, predicted = json.load(open("eval.json")), json.load(open("predict.json"))
assert predicted["paradl"] == "prediction/1" and predicted["command"][:2] == ["paradl", "predict"]
assert abs(scored["loss"] - predicted["loss"]) <= 1e-6 * scored["loss"] and scored["accuracy"] == predicted["accuracy"]
for key in "samples_per_s batch_s batch_p95_s projected_batch_s".split():
    assert predicted[key] > 0, key
rows = list(csv.reader(open("out.csv")))
assert rows[0] == ["sample", "label"] + ["y%d" % i for i in range(10)]
rows = [[int(row[0]), int(row[1])] + [float(v) for v in row[2:]] for row in rows[1:]]
assert [row[0] for row in rows] == list(range(64))
# The file of numbers has the same, and the loss of its logits is the loss.
raw = open("out.npy", "rb").read()
length = struct.unpack("<H", raw[8:10])[0]
assert raw[:8] == b"\x93NUMPY\x01\x00" and (10 + length) % 64 == 0
header = eval(raw[10 : 10 + length])
assert header == {"descr": "<f4", "fortran_order": False, "shape": (64, 10)}
values = struct.unpack("<640f", raw[10 + length :])
loss = 0
for n, row in enumerate(rows):
    logits = values[10 * n : 10 * n + 10]
    assert all(abs(a - b) <= 1e-6 * abs(a) for a, b in zip(logits, row[2:]))
    loss += math.log(sum(math.exp(v) for v in logits)) - logits[row[1]]
assert abs(loss / 64 - scored["loss"]) < 1e-4 * scored["loss"]
# Classes by probability, the same on two ranks and other batches.
samples = json.load(open("out.json"))["samples"]
table = list(csv.DictReader(open("table.csv")))
assert len(samples) == len(table) == 64
for n, sample in enumerate(samples):
    logits = rows[n][2:]
    order = sorted(range(10), key=lambda c: -logits[c])
    total = sum(math.exp(v) for v in logits)
    assert sample["classes"] == order[:3] and sample["label"] == rows[n][1] and int(table[n]["class1"]) == order[0]
    assert abs(sample["probabilities"][1] - math.exp(logits[order[1]]) / total) < 1e-3
PY

# An ONNX file with its weights, beside a forward pass by hand; and the same weights as a file of their own.
python3 - <<'PY'
import math, random, struct, weights
from weights import drawn, initializer, node

random.seed(3)
w = {"conv.weight": drawn(5, 2, 3, 3), "conv.bias": drawn(5), "bn.weight": drawn(5), "bn.bias": drawn(5),
     "bn.running_mean": drawn(5), "bn.running_var": ([5], [0.5, 1.0, 1.5, 2.0, 0.25]), "fc.weight": drawn(4, 5), "fc.bias": drawn(4)}
nodes = [node("Conv", ["x", "conv.weight", "conv.bias"], "a", pads=[1, 1, 1, 1]),
         node("BatchNormalization", ["a", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], "b"),
         node("Relu", ["b"], "c"), node("GlobalAveragePool", ["c"], "d"), node("Flatten", ["d"], "e"),
         node("Gemm", ["e", "fc.weight", "fc.bias"], "y", transB=1)]
weights.write_onnx("net.onnx", nodes, [initializer(k, v) for k, v in w.items()], [1, 2, 6, 6], [1, 4])
weights.write("net.safetensors", w)

def npy(path, code, shape, values):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (code, shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values)

count = 7
x = drawn(count, 2, 6, 6)[1]
npy("x.npy", "<f4", (count, 2, 6, 6), struct.pack("<%df" % len(x), *x))
npy("x.labels.npy", "<i4", (count,), struct.pack("<%di" % count, *[n % 4 for n in range(count)]))
expected = []
for n in range(count):
    mean = []
    for f in range(5):
        total = 0
        for i in range(6):
            for j in range(6):
                v = w["conv.bias"][1][f]
                for c in range(2):
                    for p in range(3):
                        for q in range(3):
                            a, b = i + p - 1, j + q - 1
                            if 0 <= a < 6 and 0 <= b < 6:
                                v += w["conv.weight"][1][((f * 2 + c) * 3 + p) * 3 + q] * x[((n * 2 + c) * 6 + a) * 6 + b]
                v = (v - w["bn.running_mean"][1][f]) / math.sqrt(w["bn.running_var"][1][f] + 1e-5)
                total += max(0, v * w["bn.weight"][1][f] + w["bn.bias"][1][f])
        mean.append(total / 36)
    expected.append([w["fc.bias"][1][k] + sum(w["fc.weight"][1][k * 5 + f] * mean[f] for f in range(5)) for k in range(4)])
import json
json.dump(expected, open("expected.json", "w"))
PY
for run in "net.onnx" "--model net.onnx --init net.safetensors" "net.safetensors --model net.onnx"; do
    # shellcheck disable=SC2086
    expect 0 predict $run --data x.npy --train-split --no-normalise --batch 3 -o onnx.csv
    python3 - <<'PY' || fail "outputs of $run"
import csv, json

expected = json.load(open("expected.json"))
found = [[float(v) for v in row[2:]] for row in list(csv.reader(open("onnx.csv")))[1:]]
assert found and all(abs(a - b) < 1e-5 * max(1, abs(b)) for x, y in zip(found, expected) for a, b in zip(x, y)), (found, expected)
PY
done
expect 0 eval net.onnx --data x.npy --train-split --no-normalise

# One line each.
expect 2 predict run
has err "add --data D, or --prompt TEXT"
expect 2 predict "${data[@]}"
has err "give a checkpoint, an ONNX file, or --model M with --init FILE"
expect 2 predict run "${data[@]}" -o out.xyz
has err "out.xyz: predictions are written to .npy, .csv or .json"
expect 2 predict run "${data[@]}" -o out.npy --top-k 2
expect 2 predict run "${data[@]}" --top-k 11
has err "--top-k 11: lenet has 10 classes"
expect 2 predict run "${data[@]}" --tokens 3
has err "--tokens is for text: add --prompt TEXT"
expect 2 predict run --prompt hello --vocabulary byte
has err "lenet reads no tokens"
expect 1 predict nowhere "${data[@]}"
expect 2 predict net.safetensors --data x.npy
has err "does not name its model: add --model M"
expect 2 predict run "${data[@]}" --init net.safetensors
expect 2 predict net.safetensors --model lenet "${data[@]}"
expect 1 predict run "${data[@]}" -o nowhere/out.csv
for file in out.xyz nowhere; do [ ! -e $file ] || fail "$file was written"; done
finish
