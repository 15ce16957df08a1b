#!/usr/bin/env bash
# plan: the table, the JSON document with the same numbers, and the plan file.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

request=(--model resnet50 --system abci-v --data imagenet --pe 128)
expect 0 plan "${request[@]}"
cp out table
[ ! -s err ] || fail "plan talks: $(cat err)"
has table "25.6 M parameters, 4.09 GMAC per sample"
has table "1,281,167 samples"
has table "128 x NVIDIA V100 SXM2 16 GB in 32 nodes"
has table "limited by"
has table "not possible: "
has table "best: "
has table "batch      8,192 samples: 64 samples per device by default; --batch or --samples-per-device sets another"
! grep -q "next:" table || fail "a next command is named although nothing was written"
# Text is counted in windows of the model's sequence, whatever its description says.
expect 0 plan --model llama2-7b --system selene --pe 64 --precision bf16 --data openwebtext --strategy data
has out "1,800,000 samples"
has err "7,200,000 samples of 1024 tokens in openwebtext are 1,800,000 of the 4096 that llama2-7b reads"
# A batch is never more than the data set, and an epoch is samples over speed, not a rounded number of updates.
expect 0 plan --model resnet18 --system frontier --pe 16384 --precision bf16 --data mnist --json
python3 - <<'PY' || fail "epochs"
import json
for c in json.load(open("out"))["candidates"]:
    if c["feasible"]:
        assert c["batch"] <= 60000, c
        assert abs(c["epoch_s"] * c["samples_per_s"] / 60000 - 1) < 1e-9, c
        assert c["memory_bytes"] == int(c["memory_bytes"]), c
        assert all(v == int(v) for v in c["memory"].values()), c
PY

! grep -q $'\033' table || fail "colours outside a terminal"

expect 0 plan "${request[@]}" --json
python3 - <<'PY' || fail "the JSON document"
import json, re

plan = json.load(open("out"))
for key in ("model", "system", "pe", "batch", "candidates", "search"):
    assert key in plan, key
for key in ("configurations", "seconds", "certified"):
    assert key in plan["search"], key
exact = plan["search"]["exact"]
assert exact["certified"] and not exact["exhaustive"], exact
assert plan["search"]["certified"] == (plan["search"]["not_replayed"] == 0), plan["search"]
assert exact["evaluated"] + sum(exact["removed"].values()) == exact["configurations"], exact
assert [b["total_s"] for b in exact["best"]] == sorted(b["total_s"] for b in exact["best"]), exact["best"]
for candidate in plan["candidates"]:
    for key in ("rank strategy mesh micro_batch schedule recompute sharding compute_s comm_s io_s bubble_s total_s "
                "low_s high_s per memory_bytes memory feasible limits epoch_s samples_per_s tflops_per_device mfu").split():
        assert key in candidate, key
    for key in ("pipeline", "data", "spatial", "tensor"):
        assert key in candidate["mesh"], key
    for limit in candidate["limits"]:
        assert set(limit) >= {"name", "share", "hint"}, limit
    assert candidate["per"] == "iteration"

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": 86400,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

def same(text, value):
    number, unit = text.split()
    return abs(float(number) * UNITS[unit] - value) <= 0.0061 * value

def short(text, value):
    number, _, factor = text.partition(" ")
    return abs(float(number) * {"": 1, "k": 1e3, "M": 1e6}[factor] - value) <= max(0.0051 * value, 0.00501)

rows = {}
for line in open("table"):
    fields = re.split(r"  +", line.strip())
    if re.match(r"\d+$", fields[0]):
        rows[int(fields[0])] = fields
    elif fields[0] == "-":
        for name in fields[1].split(": not possible")[0].split(", "):
            rows[name] = fields
possible = [c for c in plan["candidates"] if c["feasible"]]
assert possible and len(rows) == len(plan["candidates"])
assert [c["rank"] for c in possible] == list(range(1, len(possible) + 1))
for c in plan["candidates"]:
    if not c["feasible"]:
        assert c["reason"] in rows[c["strategy"]][-1]
        continue
    _, strategy, mesh, iteration, interval, rate, tflops, mfu, epoch, memory, limit = rows[c["rank"]]
    assert strategy == c["strategy"]
    assert c["batch"] == plan["batch"] == 128 * 64, c["batch"]
    assert abs(c["samples_per_s"] * c["total_s"] / c["batch"] - 1) < 1e-9
    assert short(rate, c["samples_per_s"]), (rate, c["samples_per_s"])
    assert short(tflops, c["tflops_per_device"]), (tflops, c["tflops_per_device"])
    # forward and backward of the model, and the fp32 peak of a V100
    assert abs(c["tflops_per_device"] * 1e12 * 128 / c["samples_per_s"] / 24.5e9 - 1) < 0.02, c["tflops_per_device"]
    assert abs(c["tflops_per_device"] / 15.7 / c["mfu"] - 1) < 0.01, c["mfu"]
    assert mfu == ("<1 %" if c["mfu"] < 0.01 else "%.0f %%" % (100 * c["mfu"])), (mfu, c["mfu"])
    assert same(iteration, c["total_s"]), (iteration, c["total_s"])
    assert same(epoch, c["epoch_s"]), (epoch, c["epoch_s"])
    assert same(memory, c["memory_bytes"]), (memory, c["memory_bytes"])
    low, high = interval.strip("[]").split("..")
    unit = iteration.split()[1]
    assert same(low + " " + unit, c["low_s"])
    assert same(high + " " + unit, c["high_s"])
    sizes = [int(n) for n in re.findall(r"\b(?:pipeline|data|spatial|tensor) (\d+)", mesh)]
    product = 1
    for size in sizes: product *= size
    assert product == 128, mesh
    assert c["low_s"] <= c["total_s"] <= c["high_s"]
    if c["limits"]: assert limit.startswith(c["limits"][0]["name"])
    assert c["ties_with_best"] == (c["rank"] > 1 and c["epoch_s"] < possible[0]["epoch_s"] * 1.005), c["strategy"]
PY

# The plan file can be written over, is whole, and has no temporary file beside it.
echo old >best.yaml
expect 0 plan "${request[@]}" --explain -o best.yaml
has out "plan written to best.yaml"
has best.yaml "paradl: plan/1"
has best.yaml "projected:"
[ "$(echo best.yaml*)" = best.yaml ] || fail "left behind: $(echo best.yaml*)"

# Fewer lines, other goals, other policies.
expect 0 plan "${request[@]}" --top 2
[ "$(grep -c '^ *[0-9][0-9]*  ' out)" -eq 2 ] || fail "--top 2 shows $(grep -c '^ *[0-9][0-9]*  ' out)"
expect 0 plan "${request[@]}" --goal memory --strategy data --samples-per-pe 8
has out "1,024 samples: 8 per device"
expect 0 plan "${request[@]}" --goal energy --top 1
has out "energy/sample"
expect 0 plan "${request[@]}" --goal cost --top 1
has out "device hours/epoch"
has out "abci-v has no price: add cost_per_pe_hour"
expect 0 plan --model resnet50 --system abci-v --pe 8 --goal cost --top 1
has out "device hours/M samples"
! grep -q "e-0" out || fail "a cost nobody can read: $(cat out)"
# Intervals are wide, and said to be estimates, where nothing was measured.
! grep -q "intervals are estimates" table || fail "abci-v was measured"
expect 0 plan --model resnet50 --system selene --pe 8 --top 1 --json
python3 - <<'PY' || fail "the interval of a machine without measurements"
import json
c = json.load(open("out"))["candidates"][0]
assert c["interval"] == "estimated" and c["high_s"] / c["total_s"] > 1.8, c
PY
expect 0 plan --model resnet50 --system selene --pe 8 --top 1
has out "The intervals are estimates: nothing of this machine and framework was measured."
expect 0 plan --model gpt2-124m --system selene --pe 8 --precision bf16 --optimizer adam --mode inference --top 1
has out "tokens/s"
expect 0 plan --model gpt2-124m --system selene --pe 8 --mode inference --json
python3 - <<'PY' || fail "rates of inference"
import json
plan = json.load(open("out"))
for c in plan["candidates"]:
    if not c["feasible"]: continue
    assert c["batch"] == plan["batch"] == 64
    assert abs(c["tokens_per_s"] / c["samples_per_s"] - 1024) < 1e-6
    assert 0 < c["mfu"] < 1
PY
expect 0 plan --model lenet --system local --pe 1
has out "serial"
# Where the trainer's own memory is counted, batches are equal as well.
expect 0 plan --model lenet --system local --pe 2 --max-memory 3MB --json
python3 -c 'import json; p = json.load(open("out")); b = {c["batch"] for c in p["candidates"] if c["feasible"]}
assert b == {p["batch"]} == {128}, b' || fail "batches differ"
# Lines that share a reason are one.
expect 0 plan --model lenet --system local --pe 2
[ "$(grep -c 'two axes need at least 4 devices' out)" -eq 1 ] || fail "the same reason on several lines"
expect 0 plan --model resnet50 --system abci-v --pe 8 --strategy spatial --spatial-until layer1.0.conv1 --batch 32

# A framework is data: its host and its memory show, and every answer names it.
expect 0 plan --model gpt2-124m --system h200 --pe 1 --batch 4 --precision bf16 --optimizer adam --strategy serial --json
cp out ideal.json
for framework in "$SOURCE"/share/frameworks/*.yaml; do
    name=$(basename "$framework" .yaml)
    expect 0 plan --model gpt2-124m --system h200 --pe 1 --batch 4 --precision bf16 --optimizer adam --strategy serial --framework "$name"
    has out "$name, parameters"
done
expect 0 plan --model gpt2-124m --system h200 --pe 1 --batch 4 --precision bf16 --optimizer adam --strategy serial --framework pytorch --json
python3 - <<'PY' || fail "--framework pytorch"
import json
ideal, eager = json.load(open("ideal.json")), json.load(open("out"))
assert ideal["framework"] is None and eager["framework"] == "pytorch"
# The host of an eager framework cannot keep up with an H200 on 4,096 tokens.
assert eager["candidates"][0]["total_s"] > 2 * ideal["candidates"][0]["total_s"]
PY
expect 2 plan --model lenet --system local --pe 1 --framework pytroch
has err "pytorch"
printf 'paradl: framework/1\nname: mine\nextends: default\nparameters: {host_launch: 1us}\n' >mine.yaml
expect 2 plan --model lenet --system local --pe 1 --framework mine.yaml
has err 'mine.yaml:4: unknown parameter "host_launch"'

# A sweep doubles the devices and ends with the last number; efficiency is that of a device.
sweep=(plan --model gpt2-124m --system selene --strategy data --batch 96)
expect 0 "${sweep[@]}" --pe 4..12 --plot scaling.svg
has out "strong scaling"
has out "● projected"
grep -q "<svg" scaling.svg || fail "no drawing"
expect 0 "${sweep[@]}" --pe 4..12 --json
python3 - <<'PY' || fail "sweep"
import json
d = json.load(open("out"))
assert d["paradl"] == "scaling/1" and d["scaling"] == "strong"
assert [p["devices"] for p in d["points"]] == [4, 8, 12]
first, last = d["points"][0], d["points"][2]
assert first["efficiency"] == 1 and 0.3 < last["efficiency"] < 1
rate = lambda p: p["best"]["samples_per_s"] / p["devices"]
assert abs(last["efficiency"] - rate(last) / rate(first)) < 1e-9
PY

# For another framework: its file, a job that a shell understands, and what is not expressed.
expect 0 "${sweep[@]}" --pe 8 --export deepspeed -o exported
has out "not expressed:"
bash -n exported/job.slurm || fail "job.slurm"
python3 -c 'import json; d = json.load(open("exported/ds_config.json")); assert d["train_batch_size"] == 96' || fail "ds_config.json"
[ -s exported/plan.yaml ] && [ -s exported/first_iterations.txt ] || fail "files of an export"

# Flags of overlap are those that the projection had: Megatron-LM 0.14 has none unless they are given.
for framework in megatron megatron-lm-0.14; do
    expect 0 "${sweep[@]}" --pe 8 --strategy data --framework "$framework" --export megatron -o "for-$framework"
done
grep -rq -e overlap-grad-reduce for-megatron || fail "overlap of gradients was projected and is not exported"
if grep -rq -e overlap-grad-reduce for-megatron-lm-0.14; then fail "overlap of gradients is exported and was not projected"; fi

# A run beside its projection, and a config.json with sequences of another length.
expect 0 "${sweep[@]}" --pe 8 --measured iteration_s=9
has out "outside the 90 % interval"
expect 2 "${sweep[@]}" --pe 8 --measured comm_s=1
has err "add iteration_s=SECONDS"
mkdir small
printf '{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 128, "vocab_size": 65}' >small/config.json
expect 0 model import small/config.json --sequence 32 -o short.yaml
expect 0 plan --model small/config.json --sequence 32 --system selene --pe 2 --strategy data --batch 8
has out "8 samples, 256 tokens"
expect 2 plan --model small/config.json --sequence 32 --system selene --pe 2 -o no.yaml
has err "paradl model import small/config.json --sequence 32"

# A whole training, with failures; what the description does not say is named.
expect 0 "${sweep[@]}" --pe 8 --tokens 10G
has out "to train on 10.0 G tokens: 101,726 iterations"
has out "not known of selene: ownership.device_mtbf (failures)"
sed '$ a ownership: {device_mtbf: 1000h, restart: 5min, checkpoint_bandwidth: 1GB/s, price_per_kwh: 0.2}\ncost_per_pe_hour: 2' \
    "$SOURCE/share/systems/selene.yaml" >owned.yaml
expect 0 "${sweep[@]}" --system owned.yaml --pe 8 --tokens 10G --json
python3 - <<'PY' || fail "ownership"
import json
o = json.load(open("out"))["ownership"]
assert o["missing"] is None and o["iterations"] == 101726
assert 0.99 < o["goodput"] < 1 and abs(o["work_s"] / o["total_s"] - o["goodput"]) < 1e-9
assert abs(o["cost"] - o["total_s"] * 8 / 3600 * 2) < 1e-6 * o["cost"]
assert o["mtbf_s"] == 1000 * 3600 / 8 and o["energy_cost"] > 0
PY
expect 0 "${sweep[@]}" --system owned.yaml --pe 8..16 --tokens 10G
has out "goodput"

# Where nothing is possible the reasons come first, in a file too.
status=0
"$PARADL" plan --model gpt3-175b --system selene --pe 8 >both 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "status $status instead of 2"
[[ "$(tail -1 both)" == *"see the reasons above" ]] || fail "the last line is: $(tail -1 both)"
# The constraint is named, and what the closest plan lacks.
grep -q "within the memory of a device, 74.5 GiB: the closest, [a-z+0-9]*, needs [0-9.]* GiB, [0-9.]* GiB more" both || fail "$(tail -1 both)"
expect 2 plan --model gpt2-124m --system selene --pe 8 --batch 8 --max-memory 1GiB
has err "within --max-memory 1.00 GiB: the closest, "
# Weights that nothing here holds: no policy is tried, which would take minutes.
expect 2 plan --model gpt3-175b --system h200-paradl --devices 1
has err "weights alone take 650 GiB per device, of 139 GiB"

# --set: values of the system by their path, as sliders of a page change them; a wrong key names the one that was meant.
expect 0 plan --model resnet50 --system abci-v --devices 64 --json
cp out before.json
expect 0 plan --model resnet50 --system abci-v --devices 64 --json --set levels.1.bandwidth=25GB/s --set levels.leaf-group.latency=20us --set device.memory=8GB
python3 - <<'PY' || fail "--set changes nothing"
import json
before, after = json.load(open("before.json")), json.load(open("out"))
assert after["device"]["memory_bytes"] == 8e9 and after["candidates"][0]["comm"]["gradient_s"] < before["candidates"][0]["comm"]["gradient_s"]
PY
expect 2 plan --model lenet --system abci-v --devices 2 --set levels.rak.latency=1us
has err 'there is no "rak": did you mean rack?'
expect 2 plan --model lenet --system abci-v --devices 2 --set device.memori=1GB
has err 'unknown key "memori": did you mean memory?'
expect 2 plan --model lenet --system abci-v --devices 2 --set device.memory
has err "expected KEY=VALUE"
expect 2 simulate --topology dln --hosts 16 --set device.memory=1GB
has err "are for a plan"

# --with: what trains with other values, which the answer states.
expect 0 plan --model gpt2-124m --system selene --devices 64 --batch 64 --framework megatron --with overlap_gradients=false
has out "framework   megatron, parameters published with overlap_gradients=false"
expect 0 plan --model gpt2-124m --system selene --devices 64 --batch 64 --framework megatron --with overlap_gradients=false --json
has out '"parameters": "published with overlap_gradients=false"'
expect 2 plan --model gpt2-124m --system selene --devices 64 --with overlap_gradient=false
has err 'did you mean overlap_gradients?'
expect 2 simulate --topology dln --hosts 16 --with overlap_gradients=false
has err "are for a plan"

# A sweep answers as single questions do, and says what was not looked at.
sweep=(--model gpt2-124m --system selene --batch 64 --precision bf16)
expect 0 plan "${sweep[@]}" --devices 16..32 --json
cp out sweep.json
expect 0 plan "${sweep[@]}" --devices 16 --json
cp out one.json
python3 - <<'PY' || fail "a sweep and a single question"
import json
points, one = json.load(open("sweep.json"))["points"], json.load(open("one.json"))
best = one["candidates"][0]
assert points[0]["certified"] and points[0]["not_certified"] is None and one["search"]["certified"]
for key in ("strategy", "mesh", "micro_batches", "schedule", "sharding"):
    assert points[0]["best"][key] == best[key], key
PY
expect 0 plan --model lenet --system local --devices 1..2 --batch 16
has out "not certified on 1 device: memory and time of plans for the backend cpu"
has out "not certified on 2 devices: "
finish
