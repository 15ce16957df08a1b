#!/usr/bin/env bash
# Every --json begins with kind, version and command; layers of a plan add up to its computation.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

# head_of KIND WORD...: the document of these words is of this kind, and names them in their order.
head_of() {
    local kind=$1
    shift
    expect 0 "$@"
    python3 - "$kind" "$@" <<'PY' || fail "paradl $*: head of the document"
import json, sys
d = json.load(open("out"))
assert list(d)[:3] == ["paradl", "version", "command"], list(d)[:3]
assert d["paradl"] == sys.argv[1] + "/1" and d["command"] == ["paradl"] + sys.argv[2:] and d["version"], d["command"]
PY
}

plan=(plan --model lenet --system abci-v --devices 2 --batch 32 --strategy data)
head_of plan-result "${plan[@]}" --json --layers
python3 - <<'PY' || fail "layers of a plan"
import json
d = json.load(open("out"))
best, layers = d["candidates"][0], d["layers"]
assert {"conv1", "fc1"} <= {l["name"] for l in layers} and len(d["model_hash"]) == 16 and d["device"]["memory_bytes"] > 0
taken = sum(l["forward_s"] + l["backward_s"] for l in layers)
assert 0.5 * best["compute_s"] <= taken <= 1.0001 * best["compute_s"], (taken, best["compute_s"])
PY
expect 2 "${plan[@]}" --layers
has err "add --json"
expect 0 "${plan[@]}" -o plan.yaml
head_of plan-simulation simulate plan.yaml --json
head_of plan-simulation simulate --json plan.yaml --system abci-v
head_of model model show lenet --json
head_of model-list model list --json
head_of system system show local --json
head_of system-list system list --json
head_of dataset data info mnist --json
head_of dataset-list data list --json
head_of topology-list topo list --json
head_of algorithm-list coll list --json
# Nobody else begins a document; what other frameworks read is theirs.
! grep -rn --exclude-dir=export "pdl_json_begin(" "$SOURCE/src/report" "$SOURCE/src/cli" || fail "documents without a head"
head_of verification coll verify ring --ranks 4 --json
head_of collective-prices coll price --system selene --json
finish
