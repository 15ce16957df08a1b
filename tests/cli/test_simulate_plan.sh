#!/usr/bin/env bash
# simulate PLAN.yaml: projected beside simulated, JSON with the same numbers, timelines, slow ranks, mistakes.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

plans=$SOURCE/examples/plans

# The parts sum to the whole, here and there, and the large 3-D plan is within 1 % of its projection.
expect 0 simulate "$plans/gpt3_1024.yaml" --json
check 'd["ranks"] == 1024 and len(d["stages"]) == 16 and d["flows"] > 0 and d["engine"] == "flow"'
check 'abs(d["simulated"]["total_s"] / d["projected"]["total_s"] - 1) < 0.01'
check 'all(abs(sum(v for k, v in d[w].items() if k != "total_s") / d[w]["total_s"] - 1) < 1e-9 for w in ("projected", "simulated"))'
check 'all(0 <= s["idle_share"] < 1 for s in d["stages"]) and d["busiest_link"]["bytes"] > 0'
check 'all(c["simulated_s"] > 0 and c["times"] > 0 for c in d["communications"])'
expect 0 simulate "$plans/gpt3_1024.yaml"
for word in projected simulated computation "layer collectives" "stage transfer" "gradient exchange, exposed" bubble total \
    "busiest link" idle; do has out "$word"; done

# A plan of data and spatial: halos; two runs print the same; the link-load engine answers too.
expect 0 simulate "$plans/resnet50_1024.yaml"
has out "halo exchange"
cp out first
expect 0 simulate "$plans/resnet50_1024.yaml"
cmp -s first out || fail "two runs of the same plan differ"
expect 0 simulate "$plans/resnet50_1024.yaml" --engine loads --json
check 'd["engine"] == "loads" and abs(d["simulated"]["total_s"] / d["projected"]["total_s"] - 1) < 0.1'

# What plan writes, simulate reads; the projection is near the one the plan carries, whose formulas know no buckets.
expect 0 plan --model resnet18 --system dgx-h100 --pe 8 --strategy data --batch 256 -o plan.yaml
expect 0 simulate plan.yaml --json
check "abs(d['projected']['total_s'] / $(sed -n 's/.*iteration_s: \([0-9.e-]*\).*/\1/p' plan.yaml) - 1) < 0.02"
check 'd["model"] == "resnet18" and d["system"] == "dgx-h100" and d["strategy"] == "data"'

# A slow rank holds everybody up.
cp out even
check 'max(level["largest_share"] for level in d["levels"]) == d["busiest_link"]["share"] and all(level["used"] <= level["links"] for level in d["levels"])'
expect 0 simulate plan.yaml --slow 3:2 --json
check 'd["simulated"]["compute_s"] > 1.9 * json.load(open("even"))["simulated"]["compute_s"]'

# Timelines: one process per stage asked for, operations of one stream one after the other, and about as long as the table says.
expect 0 simulate "$plans/gpt3_1024.yaml" --trace t.json --trace-ranks 3 --json
cp out whole
cat >timeline.py <<'PYTHON'
import json
trace = json.load(open("t.json"))["traceEvents"]
total_us = json.load(open("whole"))["simulated"]["total_s"] * 1e6
slices = [e for e in trace if e["ph"] == "X"]
assert {e["pid"] for e in trace} == {0, 64, 128}
threads = {e["args"]["name"]: e["tid"] for e in trace if e["name"] == "thread_name"}
assert {"computation", "redistribution", "gradient exchange", "stage transfer"} <= set(threads), threads
end_us = max(e["ts"] + e["dur"] for e in slices)
assert 0.8 * total_us <= end_us <= 1.05 * total_us, (end_us, total_us)
computed = [e for e in slices if e["pid"] == 64 and e["tid"] == threads["computation"]]
first = next(e["name"] for e in computed if e["name"].startswith("forward "))
assert len([e for e in computed if e["name"] == first]) == 64
computed.sort(key=lambda e: e["ts"])
assert all(a["ts"] + a["dur"] <= b["ts"] * (1 + 1e-9) + 1e-3 for a, b in zip(computed, computed[1:]))
PYTHON
python3 timeline.py 2>message || fail "the timeline: $(tail -2 message)"

# Mistakes.
printf 'paradl: plan/1\nmodel: resnet50\ndata: {batch: 256}\nstrategy: data\nmesh: [{data: 8}]\n' >lost.yaml
refuse "lost.yaml names no system: add one with --system" simulate lost.yaml
expect 0 simulate lost.yaml --system selene
refuse "8 devices, but local has only 2" simulate lost.yaml --system local
refuse "unknown system" simulate lost.yaml --system nowhere
refuse "leave out --topology" simulate lost.yaml --topology dln
refuse "engines flow and loads" simulate lost.yaml --system selene --engine simgrid
refuse "--slow: expected RANK:FACTOR with ranks 0 to 7" simulate lost.yaml --system selene --slow 8:2
refuse "--slow: expected RANK:FACTOR" simulate lost.yaml --system selene --slow 1
refuse "are for a plan" simulate --topology dln --hosts 64 --bytes 1MiB --slow 1:2
sed 's/data: {batch: 256}/data: {batch: 4}/; s/^model/system: selene\nmodel/' lost.yaml >small.yaml
refuse "larger than the batch" simulate small.yaml
sed 's/strategy: data/strategy: pipeline/; s/mesh: .*/mesh: [{pipeline: 400}]/' lost.yaml >deep.yaml
refuse "stage" simulate deep.yaml --system selene
expect 1 simulate nothing.yaml
has err "nothing.yaml"
expect 1 simulate lost.yaml --system selene --trace nowhere/t.json
has err "nowhere/t.json"
[ ! -e nowhere ] || fail "a failed run left something"
# What plan prints and writes is what simulate gives, of pipelines too; --explain says where their time goes.
expect 0 plan --model gpt2-355m --system selene --pe 64 --strategy 3d --batch 64 --explain -o planned.yaml
has out "stages the slowest takes"
expect 0 simulate planned.yaml --json
python3 - <<'PY' || fail "plan and simulate differ"
import json
import re

written = float(re.search(r"iteration_s: ([0-9.e-]+)", open("planned.yaml").read()).group(1))
sim = json.load(open("out"))
assert abs(sim["simulated"]["total_s"] / written - 1) <= 0.01, (written, sim["simulated"])
PY

# A plan that does not fit is refused, unless it is simulated all the same.
cat >nofit.yaml <<'YAML'
paradl: plan/1
model: gpt3-175b
system: selene
data: {batch: 64}
strategy: data
mesh: [{data: 64}]
precision: bf16
YAML
refuse 'nofit.yaml does not fit: it needs 2.' simulate nofit.yaml
has err "--ignore-memory"
expect 0 simulate nofit.yaml --ignore-memory --engine loads --json
has err "does not fit"
check 'd["fits"] is False and d["memory_bytes"] > 1e12 and d["device_memory_bytes"] == 80000000000'
expect 0 simulate nofit.yaml --ignore-memory --engine loads
has out "74.5 GiB per device: does not fit"
sed -e 's/gpt3-175b/resnet50/' -e 's/selene/abci-v/' nofit.yaml >v100.yaml
refuse 'does not compute in bf16' simulate v100.yaml
finish
