#!/usr/bin/env bash
# plan --formulas orig: the regression values of the published program, from the command line.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

# near MODEL COMPUTE COMM OPTION...: seconds per epoch to a millionth.
near() {
    local model=$1 compute=$2 comm=$3
    shift 3
    expect 0 plan --formulas orig --model "$model" --system abci-v --json "$@"
    python3 - "$compute" "$comm" <<'PY' || fail "$model $*"
import json, sys

(c,) = json.load(open("out"))["candidates"]
for key, wanted in (("compute_s", float(sys.argv[1])), ("comm_s", float(sys.argv[2]))):
    got = c[key] * c["iterations"]
    assert abs(got - wanted) <= 1e-6 * wanted, (key, got, wanted)
assert c["low_s"] == c["total_s"] == c["high_s"]
PY
}
near resnet50-orig 249.56016 18.562137 --strategy data --pe 16 --samples-per-pe 64
near vgg16-orig 659.64712 257.725362 --strategy data --pe 16 --samples-per-pe 32
near resnet50-orig 676.691771 10609.874251 --strategy filter --pe 8 --batch 64
near resnet50-orig 287.611185 981.491753 --strategy data+filter --pe 16 --samples-per-pe 64 --divisor 8
near cosmoflow512-orig 438.901608 358.945351 --strategy data+spatial --pe 8 --samples-per-pe 1

# A table by its path finds the files beside it.
cp "$SOURCE"/share/models/resnet50-orig.net "$SOURCE"/share/models/resnet50-orig.filter.lc .
near resnet50-orig.net 676.691771 10609.874251 --strategy filter --pe 8 --batch 64

expect 0 plan --formulas orig --model resnet50-orig --system abci-v --pe 16
has out "formulas of the original program"
has out "1,280,000 samples"
has out "not possible: "
has out "data 4 x tensor 4"
expect 0 plan --formulas orig --model resnet50-orig --system abci-v --pe 16 --data imagenet --strategy data
has err "1280000 samples"

expect 2 plan --formulas orig --model resnet50 --system abci-v --pe 16
has err "resnet50-orig"
expect 2 plan --formulas orig --model resnet50-orig --system abci-v --pe 16 --strategy 3d
has err "no strategy '3d'"
expect 2 plan --formulas orig --model resnet50-orig --system abci-v --pe 16 -o plan.yaml
[ ! -e plan.yaml ] || fail "a plan was written"
expect 2 plan --model resnet50 --system abci-v --pe 16 --groups 4
has err "--formulas orig"
finish
