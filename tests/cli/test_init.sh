#!/usr/bin/env bash
# train --init: safetensors of ours and in the layout of Hugging Face, ONNX files, other heads, what is refused.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"
export PYTHONPATH=$SOURCE/tests/cli

small_gpt 0
gpt=(train --model gpt.yaml --data synthetic --samples 8 --batch 4 --threads 1 --steps 0)
expect 0 "${gpt[@]}" --checkpoint ours
python3 - <<'PY'
import weights

ours = weights.read("ours/step-00000000/model.safetensors")
theirs = {"lm_head.weight": ours["wte.weight"]}
for name, tensor in ours.items():
    conv1d = any(part in name for part in ("c_attn.weight", "c_proj.weight", "c_fc.weight"))
    theirs["transformer." + name] = weights.transpose(tensor) if conv1d else tensor
for layer in range(2):
    theirs["transformer.h.%d.attn.bias" % layer] = [1, 1, 26, 26], [1.0] * 676
    theirs["transformer.h.%d.attn.masked_bias" % layer] = [], [-1e4]
weights.write("theirs.safetensors", theirs)
theirs["lm_head.weight"] = theirs.pop("transformer.wte.weight")  # the other name of the shared table
shape, values = theirs["transformer.wpe.weight"]
theirs["transformer.wpe.weight"] = [shape[0] + 6, shape[1]], values + [9.0] * 6 * shape[1]
weights.write("longer.safetensors", theirs)
PY

# The layout of GPT-2 by Hugging Face: another prefix, linear weights transposed (the square one too), a second name.
expect 0 "${gpt[@]}" --init theirs.safetensors --init-strict --seed 5 --checkpoint from-theirs
has err 'initial weights from theirs.safetensors: 28 of 28 tensors; their names have "transformer." in front; 8 linear weights are stored [in][out] and were transposed'
expect 0 "${gpt[@]}" --init longer.safetensors --seed 5 --checkpoint from-longer
has err "wpe.weight: the first 26 of 32 positions"
expect 0 "${gpt[@]}" --init ours --seed 5 --checkpoint from-ours --strategy pipeline --pe 2
mkdir folder && cp theirs.safetensors folder/model.safetensors
expect 0 "${gpt[@]}" --init folder --seed 5 --checkpoint from-folder --strategy tensor --pe 2 --ema 0.9
for run in theirs longer ours folder; do
    python3 - $run <<'PY' || fail "weights from $run"
import sys, weights

ours, taken = weights.read("ours/step-00000000/model.safetensors"), weights.read("from-%s/step-00000000/model.safetensors" % sys.argv[1])
assert ours == taken, [name for name in ours if ours[name] != taken[name]]
PY
done

# Another head, and a layer that the file lacks.
printf 'paradl: model/1\nname: seven\nextends: lenet\nparameters: {classes: 7}\n' >seven.yaml
lenet=(train --data synthetic --samples 8 --batch 4 --threads 1 --steps 0)
expect 0 "${lenet[@]}" --model lenet --checkpoint ten
expect 0 "${lenet[@]}" --model seven.yaml --init ten --checkpoint seven --seed 3
has err "8 of 10 tensors"
has err "fc3.weight is [10, 84] in the file, [7, 84] here: drawn anew"
python3 - <<'PY' || fail "a new head"
import weights

ten, seven = (weights.read(run + "/step-00000000/model.safetensors") for run in ("ten", "seven"))
assert all((ten[name] == seven[name]) == (not name.startswith("fc3")) for name in ten)
ten["more"] = ten.pop("conv1.bias")
weights.write("less.safetensors", ten)
PY
expect 0 "${lenet[@]}" --model lenet --init less.safetensors --checkpoint less
has err "conv1.bias is not in the file: drawn anew"
has err "not used: more"
expect 2 "${lenet[@]}" --checkpoint refused --model seven.yaml --init ten --init-strict
has err "fc3.weight is [10, 84] in the file, [7, 84] here: leave out --init-strict"
expect 2 "${lenet[@]}" --checkpoint refused --model lenet --init theirs.safetensors
has err "none of its 33 tensors (lm_head.weight, ...) is a weight of lenet"
expect 2 "${lenet[@]}" --checkpoint refused --model lenet --init seven.yaml
expect 1 "${lenet[@]}" --checkpoint refused --model lenet --init nowhere.safetensors
expect 2 "${lenet[@]}" --checkpoint refused --model lenet --init-strict
has err "add --init FILE"

# ONNX: a matrix as Gemm has it, transposed, and transposed by a node; statistics; data in a file beside.
python3 - <<'PY'
import random, struct, weights
from weights import drawn, initializer, node

random.seed(3)
own = {"conv.weight": drawn(5, 2, 3, 3), "conv.bias": drawn(5), "bn.weight": drawn(5), "bn.bias": drawn(5),
       "bn.running_mean": drawn(5), "bn.running_var": drawn(5), "fc1.weight": drawn(6, 5), "fc1.bias": drawn(6),
       "fc2.weight": drawn(6, 6), "fc2.bias": drawn(6), "fc3.weight": drawn(4, 6), "fc3.bias": drawn(4)}
weights.write("expected.safetensors", own)
nodes = [node("Conv", ["x", "conv.weight", "conv.bias"], "a", pads=[1, 1, 1, 1]),
         node("BatchNormalization", ["a", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], "b"),
         node("Relu", ["b"], "c"), node("GlobalAveragePool", ["c"], "d"), node("Flatten", ["d"], "e"),
         node("Gemm", ["e", "fc1.weight", "fc1.bias"], "f", transB=1), node("Relu", ["f"], "g"),
         node("MatMul", ["g", "onnx::MatMul_1"], "h"), node("Add", ["h", "fc2.bias"], "i"), node("Relu", ["i"], "j"),
         node("Transpose", ["fc3.weight"], "turned", perm=[1, 0]),
         node("MatMul", ["j", "turned"], "k"), node("Add", ["k", "fc3.bias"], "y")]
stored = dict(own)
stored["onnx::MatMul_1"] = weights.transpose(stored.pop("fc2.weight"))
inside = [initializer(name, tensor) for name, tensor in stored.items()]
weights.write_onnx("net.onnx", nodes, inside, [1, 2, 6, 6], [1, 4])
body = b""
outside = []
for name, tensor in stored.items():
    data = struct.pack("<%df" % len(tensor[1]), *tensor[1])
    outside.append(initializer(name, tensor, {"location": "net.data", "offset": len(body), "length": len(data)}))
    body += data
open("net.data", "wb").write(body)
weights.write_onnx("outside.onnx", nodes, outside, [1, 2, 6, 6], [1, 4])
wrong = [initializer(name, tensor, {"location": "../net.data"}) for name, tensor in stored.items()]
weights.write_onnx("wrong.onnx", nodes, wrong, [1, 2, 6, 6], [1, 4])
open("short.data", "wb").write(body[:100])
short = [initializer(name, tensor, {"location": "short.data"}) for name, tensor in stored.items()]
weights.write_onnx("short.onnx", nodes, short, [1, 2, 6, 6], [1, 4])
PY
for net in net outside; do
    expect 0 "${lenet[@]}" --model net.onnx --init $net.onnx --init-strict --checkpoint from-$net
    has err "12 of 12 tensors"
    python3 - $net <<'PY' || fail "weights of $net.onnx"
import sys, weights

expected, taken = weights.read("expected.safetensors"), weights.read("from-%s/step-00000000/model.safetensors" % sys.argv[1])
assert expected == taken, [name for name in expected if expected[name] != taken.get(name)]
PY
done
expect 2 "${lenet[@]}" --checkpoint refused --model net.onnx --init wrong.onnx
has err "is in no file of the same folder"
expect 2 "${lenet[@]}" --checkpoint refused --model net.onnx --init short.onnx
has err "short.data: it ends before the numbers of tensor"

# A run that goes on has the weights of its checkpoint, and says nothing of others.
expect 0 train --model lenet --data synthetic --samples 8 --batch 4 --threads 1 --init ten --steps 2 --checkpoint run
expect 0 train --model lenet --data synthetic --samples 8 --batch 4 --threads 1 --init ten --steps 3 --checkpoint run --resume
! grep -q "initial weights" err || fail "initial weights of a resumed run"
finish
