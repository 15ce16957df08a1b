#!/usr/bin/env bash
# Mistakes: exit status, one line on stderr, nothing on stdout, no file left behind.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

printf 'paradl: model/1\nname: [broken\n' >bad.yaml
printf 'paradl: system/1\nname: x\n' >not_a_model.yaml
head -c 2000 "$SOURCE/tests/model/onnx/resnet18.onnx" >truncated.onnx
mkdir folder
printf 'a,b\n1,2\n' >other.csv
printf 'run_id,iter_time_s\nx,1\n' >published.csv

# refuse STATUS TEXT ARGUMENT...
refuse() {
    local status=$1 text=$2
    shift 2
    expect "$status" "$@"
    [ "$(wc -l <err)" -eq 1 ] || fail "paradl $*: $(wc -l <err) lines of messages: $(cat err)"
    [ ! -s out ] || fail "paradl $*: output beside an error: $(head -c 200 out)"
    has err "paradl: "
    has err "$text"
}

plan=(plan --model resnet50 --system abci-v)
refuse 2 'unknown model "resnet51"' plan --model resnet51 --system abci-v --pe 4
refuse 2 'unknown system "abci"' plan --model resnet50 --system abci --pe 4
refuse 2 'unknown data set "imagnet"' "${plan[@]}" --data imagnet --pe 4
refuse 2 'unknown parameter set' "${plan[@]}" --parameters nonsense --pe 4
refuse 1 'missing.yaml' plan --model missing.yaml --system abci-v --pe 4
refuse 1 'missing.yaml' system show ./missing.yaml
refuse 2 'bad.yaml:' model show bad.yaml
refuse 2 'not_a_model.yaml:' model show not_a_model.yaml
refuse 1 'folder' model show ./folder
refuse 2 '--devices P is missing' "${plan[@]}"
refuse 2 '--pe: expected a whole number' "${plan[@]}" --pe 0
refuse 2 '--pe: expected a whole number' "${plan[@]}" --pe -1
refuse 2 '--pe: expected a whole number' "${plan[@]}" --pe 1e99
refuse 2 '--pe: expected a whole number' "${plan[@]}" --pe 99999999999999999999
refuse 2 '--pe: expected a whole number' "${plan[@]}" --pe ''
refuse 2 '--pe: expected a whole number of at least 8' "${plan[@]}" --pe 8..4
refuse 2 '--pe: expected a whole number' "${plan[@]}" --pe 8..
refuse 2 'a sweep has many plans' "${plan[@]}" --pe 4..8 -o plan.yaml
refuse 2 '--plot needs a sweep' "${plan[@]}" --pe 4 --plot scaling.svg
refuse 2 'is none of megatron' "${plan[@]}" --pe 4 --export caffe -o folder
refuse 2 '--export needs a folder' "${plan[@]}" --pe 4 --export megatron
refuse 2 'say --epochs with --data' "${plan[@]}" --pe 4 --tokens 1T
refuse 2 '--epochs needs a data set' "${plan[@]}" --pe 4 --epochs 3
refuse 2 'abci-v has only 4352: ask for fewer, or for a larger machine with --set levels.3.fanout=736' "${plan[@]}" --pe 100000
refuse 2 '3d on 7 devices is not possible' "${plan[@]}" --pe 7 --strategy 3d
refuse 2 'data+filter on 13 devices is not possible' "${plan[@]}" --pe 13 --strategy data+filter
refuse 2 'pipeline on 512 devices is not possible' "${plan[@]}" --pe 512 --strategy pipeline
refuse 2 'filter on 512 devices is not possible' "${plan[@]}" --pe 512 --strategy filter
refuse 2 'has no convolution or pooling to split in space' train --model gpt-char-small --data synthetic --samples 8 --batch 4 --steps 1 --device dry --devices 2 --strategy spatial
refuse 2 'filtre' "${plan[@]}" --pe 4 --strategy filtre
refuse 2 '--goal: expected time, memory, cost or energy' "${plan[@]}" --pe 4 --goal speed
refuse 2 '--precision: expected' "${plan[@]}" --pe 4 --precision fp33
refuse 2 '--max-memory: expected a size' "${plan[@]}" --pe 4 --max-memory lots
refuse 2 '--max-memory: expected a size' "${plan[@]}" --pe 4 --max-memory=-1GiB
refuse 2 'data on 4 devices is not possible: needs' "${plan[@]}" --pe 4 --strategy data --max-memory 1MB
refuse 2 '--batch: expected a whole number' "${plan[@]}" --pe 4 --batch 0
refuse 2 'exclude each other' "${plan[@]}" --pe 4 --batch 64 --samples-per-pe 16
refuse 2 'no layer "nowhere"' "${plan[@]}" --pe 4 --strategy spatial --spatial-until nowhere
refuse 2 'no layer "nope"' plan --model lenet --system abci-v --pe 4 --spatial-until nope
refuse 2 'did you mean conv1' plan --model lenet --system abci-v --pe 4 --spatial-until con1
refuse 1 'folder: Is a directory' "${plan[@]}" --pe 4 -o folder
# What the device does not have.
refuse 2 '--max-memory 466 GiB is more than the 14.9 GiB of NVIDIA V100' "${plan[@]}" --pe 4 --max-memory 500GB
for type in tf32 bf16 fp8 nvfp4; do
    refuse 2 "does not compute in $type: it has fp64, fp32, fp16" "${plan[@]}" --pe 4 --precision $type
done
# Data that does not fit the model.
refuse 2 'llama2-7b reads tokens, but the samples of imagenet are numbers' \
    plan --model llama2-7b --system selene --pe 64 --data imagenet
refuse 2 'resnet50 reads numbers, but the samples of tinyshakespeare are tokens' "${plan[@]}" --pe 8 --data tinyshakespeare
refuse 2 'reads samples of 3x224x224, those of deepcam are 16x768x1152' "${plan[@]}" --pe 8 --data deepcam
refuse 2 'parameters: {classes: 1000}' plan --model resnet18-cifar --system abci-v --pe 4 --data imagenet
refuse 2 'wants 262144 targets a sample, imagenet has 1' plan --model unet --system abci-v --pe 4 --data imagenet
refuse 2 'mnist has 60000 samples, fewer than a batch of 70000' \
    plan --model lenet --system abci-v --pe 4 --data mnist --batch 70000
refuse 2 'mnist has 60000 samples, fewer than a batch of 80000' \
    plan --model lenet --system abci-v --pe 4 --data mnist --samples-per-pe 20000
refuse 2 'neither a file or folder nor a built-in name' "${plan[@]}" --pe 4 --data nothing.npy
refuse 1 'No such file or directory' "${plan[@]}" --pe 4 -o nowhere/plan.yaml
refuse 2 'truncated.onnx' model import truncated.onnx -o model.yaml
refuse 2 '--output MODEL.yaml is missing' model import truncated.onnx
refuse 2 '--batch: expected a whole number' model show resnet50 --batch none
refuse 2 'unknown option -x' model show resnet50 -x
refuse 1 'missing.csv' validate missing.csv
refuse 2 'neither a table of measured runs' validate other.csv
refuse 2 'column "source" is missing' validate published.csv
[ ! -e model.yaml ] || fail "a failed import left a file"

# What a plan says is not said again: another model or strategy would be ignored.
expect 0 plan --model lenet --system local --pe 2 --strategy spatial --optimizer adam --batch 8 -o two.yaml
two=(train two.yaml --data synthetic --samples 32 --steps 1)
refuse 2 '--model: two.yaml says that' "${two[@]}" --model resnet18
refuse 2 '--strategy: two.yaml says that' "${two[@]}" --strategy data
refuse 2 '--mesh: two.yaml says that' "${two[@]}" --mesh data:2
refuse 2 '--micro-batches: two.yaml says that' "${two[@]}" --micro-batches 2
refuse 2 '--pe 4: two.yaml is for 2 ranks' "${two[@]}" --pe 4
# But for the batch; and an optimizer with the state that was planned.
expect 0 "${two[@]}" --batch 4 --device dry --json
python3 - <<'PY' || fail "the batch beside a plan, or its optimizer"
import json
dry = json.load(open("out"))
assert dry["memory"]["optimizer"] == 2 * dry["memory"]["gradients"], dry["memory"]
assert dry["ops"][0]["samples"] == 4, dry["ops"][0]
PY

# A full disk is noticed, on stdout as well, and devices are written and not replaced.
if [ -w /dev/full ]; then
    refuse 1 'No space left' "${plan[@]}" --pe 4 -o /dev/full
    [ -c /dev/full ] || fail "/dev/full was replaced"
    for arguments in "model show resnet50" "system list" "plan --model lenet --system local --pe 2 --json"; do
        got=0
        # shellcheck disable=SC2086
        "$PARADL" $arguments >/dev/full 2>err || got=$?
        [ "$got" -eq 1 ] || fail "paradl $arguments >/dev/full: exit status $got"
        has err "standard output: No space left"
    done
fi

# Nothing possible at all: the table has the reasons, the message says so. Programs get the document.
expect 2 "${plan[@]}" --pe 4 --max-memory 1MB
has out "not possible: needs"
has err "no strategy is possible on 4 devices"
expect 2 "${plan[@]}" --pe 512 --strategy filter --json
python3 - <<'PY' || fail "the JSON document of something impossible"
import json
(c,) = json.load(open("out"))["candidates"]
assert not c["feasible"] and c["reason"] and c["total_s"] is None and c["rank"] is None
PY
finish
