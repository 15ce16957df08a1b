#!/usr/bin/env bash
# A machine whose nodes have different devices: what is shown of it, a plan for it with its file, its simulation, mistakes.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

expect 0 system show a100-v100
for word in "a100      4       32  NVIDIA A100" "v100      4       32  NVIDIA V100" "what every device has at the least"; do has out "$word"; done
expect 0 system show a100-v100 --json
check '[(p["name"], p["devices"], p["device"]["memory_bytes"]) for p in d["parts"]] == [("a100", 32, 80e9), ("v100", 32, 32e9)]'

# The table, the explanation, JSON and the file say which device a stage has; layers go to the faster ones.
plan=(plan --model gpt2-1.5b --system a100-v100 --devices 64 --precision fp16 --batch 256 --strategy data+pipeline)
expect 0 "${plan[@]}" --explain -o plan.yaml
for word in "stage 0: a100, 1: v100" "is on stage 0: a100, 1: v100; nearest to its memory is stage" "32 x NVIDIA V100" \
    "the best by the closed form is certified" "virtual, zero1, stage 0: "; do has out "$word"; done
has plan.yaml 'parts: ["a100", "v100"] # stage 0: a100, 1: v100'
expect 0 "${plan[@]}" --json
check 'd["candidates"][0]["part_order"] == ["a100", "v100"] and d["candidates"][0]["stage_devices"] == ["a100", "v100"]'
check 'd["search"]["certified"] and d["search"]["not_certified"] is None and [p["name"] for p in d["parts"]] == ["a100", "v100"]'
check 'all(sorted(p["part_order"]) == ["a100", "v100"] and len(p["stage_devices"]) == p["mesh"]["pipeline"] for p in d["search"]["exact"]["best"])'
planned=$(python3 -c 'import json; print(json.load(open("out"))["candidates"][0]["total_s"])')

# The simulation of the plan takes as long as the plan says; its stages are those of a machine that is half faster, half slower.
expect 0 simulate plan.yaml --json
check "abs(d['projected']['total_s'] / $planned - 1) < 1e-9 and abs(d['simulated']['total_s'] / $planned - 1) < 0.01"
check 'd["stage_devices"] == "stage 0: a100, 1: v100"'
for strategy in pipeline data tensor data+tensor data+filter; do
    expect 0 plan --model gpt2-355m --system a100-v100 --devices 16 --precision fp16 --batch 64 --strategy $strategy -o s.yaml --json
    planned=$(python3 -c 'import json; print(json.load(open("out"))["candidates"][0]["total_s"])')
    expect 0 simulate s.yaml --json
    check "abs(d['simulated']['total_s'] / $planned - 1) < 0.02"
done

# Pages say it too.
"$PARADL" "${plan[@]}" --json >plan.json
"$PARADL" simulate plan.yaml --json >sim.json
for name in plan sim; do expect 0 report $name.json -o $name.html; done
has plan.html ", stages on a100, then v100"
has sim.html "Devices: stage 0: a100, 1: v100."

# In the other order the same borders take longer, as they were cut for this one.
sed 's/^parts: .*/parts: [v100, a100]/' plan.yaml >turned.yaml
cp out before
expect 0 simulate plan.yaml --json
cp out before
expect 0 simulate turned.yaml --json
check 'd["stage_devices"] == "stage 0: v100, 1: a100" and d["projected"]["total_s"] > 1.2 * json.load(open("before"))["projected"]["total_s"]'

# Less memory in one part: the stage and its device are named.
sed 's/^  - {name: v100.*/  - {name: v100, nodes: 4, device: {name: tiny, memory: 2GB, memory_bandwidth: 900GB\/s, peak: {fp32: 15.7TFLOP\/s, fp16: 125TFLOP\/s}}}/' \
    "$SOURCE/share/systems/a100-v100.yaml" >tiny.yaml
expect 2 simulate plan.yaml --system tiny.yaml
has err "per device (of stage 1, tiny)"
[ "$(wc -l <err)" -eq 1 ] || fail "more than one line: $(cat err)"

# Mistakes: parts that the machine does not have, precisions that a device does not have, too many devices.
sed 's/^parts: .*/parts: [a100, h100]/' plan.yaml >unknown.yaml
refuse "it has a100, v100" simulate unknown.yaml
sed 's/^parts: .*/parts: []/' plan.yaml >none.yaml
refuse "expected 1 to 4 parts" simulate none.yaml
refuse "NVIDIA V100 SXM2 32 GB, a device of a100-v100, does not compute in bf16" plan --model resnet18 --system a100-v100 --devices 8 --precision bf16
refuse "give its parts more nodes" plan --model resnet18 --system a100-v100 --devices 128
refuse "the parts have 9 nodes, but the levels join 8" plan --model resnet18 --system a100-v100 --devices 8 --set devices.0.nodes=5
refuse "is more than the 74.5 GiB of NVIDIA A100" plan --model resnet18 --system a100-v100 --devices 8 --max-memory 100GB

finish
