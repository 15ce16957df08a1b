#!/usr/bin/env bash
# Trainings on a real network of 8 hosts (network.py), projected beside measured: the network is measured by paradl calibrate --network and
# the cores by paradl calibrate; both together are a system, on which plans are made, projected and trained. Then sums that are sparse beside
# dense ones. Checked are the choice of the plan that is fastest, and bytes, generously: processes share the cores of one machine with
# whatever else runs there. Minutes; needs root.
#
#     SHAPE=dln MODELS=lenet NETWORK=measured.yaml tests/long/test_network_training.sh     # NETWORK: an earlier calibration
set -euo pipefail
. "$SOURCE/tests/long/network.sh"
export MTU=${MTU:-576} BURST=${BURST:-600b} QUEUE=${QUEUE:-800ms}
shape=${SHAPE:-tree}
steps=${STEPS:-8}

"$PARADL" calibrate -o here.yaml --quick --quiet --devices 8 --threads 1 >out 2>err || fail "calibrate: $(tail -3 err)"
up "$shape"
if [ -n "${NETWORK:-}" ]; then cp "$NETWORK" "$shape-measured.yaml"; else measure "$shape"; fi
python3 - "$PWD/$shape-measured.yaml" <<'PYTHON'
import re, sys
rate = re.search(r"^host_link_bandwidth: *(\S+)", open(sys.argv[1]).read(), re.M).group(1)
level = f"levels:\n  - {{name: network, transport: ethernet, fanout: 8, bandwidth: {rate}, latency: 0}}\nnetwork: {sys.argv[1]}\n"
open("shaped.yaml", "w").write(re.sub(r"^levels:\n(  - .*\n)+", level, open("here.yaml").read(), flags=re.M))
PYTHON

# train NAME PLAN OPTIONS..: a run on the hosts, its summary in NAME.json.
train() {
    local name=$1 plan=$2
    shift 2
    on_hosts train "$PWD/$plan" --system "$PWD/shaped.yaml" --data synthetic --samples 1024 --steps "$steps" --no-valid --quiet --json "$@" \
        >"$name.json" 2>err || fail "$name: $(tail -3 err)"
}

for model in ${MODELS:-lenet resnet-tiny}; do
    for strategy in data data+spatial pipeline data+pipeline; do
        "$PARADL" plan --model "$model" --system shaped.yaml --devices 8 --strategy "$strategy" --batch 64 --data synthetic \
            -o "$model.$strategy.yaml" >out 2>err || fail "$model $strategy: $(tail -3 err)"
        train "$model.$strategy" "$model.$strategy.yaml"
    done
    train "$model.sparse" "$model.data.yaml" --gradient-sparsity 0.99
done

python3 - ${MODELS:-lenet resnet-tiny} <<'PYTHON' || fail "projected and measured differ"
import json, math, sys
errors, wrong = [], []
for model in sys.argv[1:]:
    runs = {s: json.load(open(f"{model}.{s}.json")) for s in ("data", "data+spatial", "pipeline", "data+pipeline", "sparse")}
    times = {s: (r["projected"]["step_s"], r["step_s"]) for s, r in runs.items()}
    for s, (projected, measured) in times.items():
        sent = sum(c["sent_bytes"] for c in runs[s]["collectives"]) / runs[s]["updates"] / 1024
        print(f"{model:12s} {s:14s} projected {1e3 * projected:7.0f} ms   measured {1e3 * measured:7.0f} ms   {100 * (projected / measured - 1):+4.0f} %"
              f"   sums send {sent:6.0f} KiB an update", flush=True)
        assert math.isfinite(runs[s]["train_loss"])
    dense = {s: t for s, t in times.items() if s != "sparse"}
    errors += [abs(p / m - 1) for p, m in times.values()]
    best, chosen = min(m for _, m in dense.values()), min(dense.values())[1]
    print(f"{model}: the plan projected to be fastest takes {chosen / best:.2f} x the fastest")
    sent = [sum(c["sent_bytes"] for c in runs[s]["collectives"]) for s in ("data", "sparse")]
    assert sent[1] < 0.1 * sent[0] and times["sparse"][1] < times["data"][1]
    if chosen > 1.25 * best:
        wrong.append(model)
print(f"mean error {100 * sum(errors) / len(errors):.0f} %")
assert not wrong and sum(errors) / len(errors) < 0.5, wrong
PYTHON
finish
