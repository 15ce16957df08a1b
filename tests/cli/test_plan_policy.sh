#!/usr/bin/env bash
# plan --data-policy: one policy or all of them, the same numbers for people and programs, the plan file, and simulate.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

request=(plan --model resnet50 --system abci-v --data imagenet --pe 512 --strategy data --samples-per-pe 32)

# Without a policy nothing is said about one.
expect 0 "${request[@]}" --json
! grep -q data_polic out || fail "a data policy that nobody asked for"
cp out plain

expect 0 "${request[@]}" --data-policy partial:0.1,hide:0.3 -o plan.yaml --explain
has out "partial:0.1,hide:0.3 saves "
has out "against global without hiding"
has out "EXCHANGE"
has out "exchange: every worker sends 250 samples"
has out "hiding: 22.2 % of the samples on average (at most 30 %)"
has plan.yaml "data_policy: {shuffle: partial, exchange: 0.1, store: local, hide: 0.3, hide_mean: 0.222, refresh_every: 1}"
expect 0 "${request[@]}" --data-policy partial:0.1,hide:0.3 --json
cp out one
expect 0 "${request[@]}" --data-policy all --json
cp out all
expect 0 "${request[@]}" --data-policy all
has out "global,store:local"
has out "paired:0.1,hide:0.3"
expect 0 simulate plan.yaml --json
cp out simulated
expect 0 simulate plan.yaml
has out "partial:0.1,hide:0.3"

python3 - <<'PY' || fail "the JSON documents"
import json

def near(a, b, rel=1e-9):
    return abs(a - b) <= rel * abs(b)

plain, one, every, simulated = (json.load(open(name)) for name in ("plain", "one", "all", "simulated"))
# A policy changes nothing else of a candidate.
policy = one["candidates"][0].pop("data_policy")
for key in ("total_s", "io_s", "epoch_s", "memory_bytes"):
    assert one["candidates"][0][key] == plain["candidates"][0][key], key
parts = ("fw_bw_s", "ge_wu_s", "io_s", "exchange_s", "select_s")
assert near(policy["epoch_s"], sum(policy[p] for p in parts))
assert near(policy["stored_share"], 1.1 / 512)
assert policy["exchange_samples"] == 250 and near(policy["seen"], 0.01915, 1e-3)
assert policy["fits"] and 0 < policy["saving"] < 0.222 and 0 < policy["hiding_saving"] < 0.222
rows = every["data_policies"]
assert len(rows) == 14
by_name = {row["policy"]: row for row in rows}
assert by_name["partial:0.1,hide:0.3"]["epoch_s"] == policy["epoch_s"]
assert by_name["global"]["saving"] == 0 and by_name["global"]["stored_share"] == 0
# Nothing is faster than local shuffling with hiding; exchange costs more with more of it.
assert min(row["epoch_s"] for row in rows) == by_name["local,hide:0.3"]["epoch_s"]
cost = [by_name["partial:" + q]["exchange_s"] for q in ("0.03", "0.1", "0.3")]
assert cost == sorted(cost) and cost[0] > 0
assert near(simulated["data_policy"]["stored_share"], 1.1 / 512)
assert simulated["data_policy"]["exchange_bytes_per_s"] < policy["exchange_bytes_per_s"] * 1.0001
PY

# A slow exchange stalls; the rate may come from elsewhere.
expect 0 "${request[@]}" --data-policy partial:0.3 --exchange-bandwidth 1MB/s --explain
has out "each stalls for"

refuse() {
    local text=$1
    shift
    expect 2 "$@"
    has err "$text"
    [ ! -s out ] || fail "output beside the error: $*"
}
refuse 'unknown shuffling "some": expected global, local, partial or paired' "${request[@]}" --data-policy some
refuse 'expected a fraction from 0 to 1, found "1.1"' "${request[@]}" --data-policy partial:1.1
refuse 'expected a fraction from 0 to 1, found "-0.1"' "${request[@]}" --data-policy paired:-0.1
refuse 'hide: expected a fraction from 0 to 1, found "2"' "${request[@]}" --data-policy local,hide:2
refuse 'leaves less than one batch' "${request[@]}" --data-policy local,hide:1
refuse 'kept on the nodes' "${request[@]}" --data-policy local,store:pfs
refuse 'needs a data set' plan --model lenet --system abci-v --pe 4 --data-policy local
refuse 'known size' plan --model lenet --system abci-v --pe 4 --data synthetic --data-policy local
refuse '--exchange-bandwidth needs --data-policy' "${request[@]}" --exchange-bandwidth 1GB/s
refuse 'is about training' "${request[@]}" --data-policy local --mode inference
finish
