#!/usr/bin/env bash
# plan --precision a,b: which precision is best, what each would take, in tables, documents, sweeps, exports and pages.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

request=(--model gpt2-124m --system dgx-h100 --pe 16 --optimizer adam --batch 64)
expect 0 plan "${request[@]}" --precision bf16,fp32,fp8
has out "times the best"
has out "best: "
grep -Eq '^best: .*in (fp8|bf16)\. compute' out || fail "the answer names no precision: $(grep best: out)"
[ "$(grep -c '^\(bf16\|fp8\|fp32\)  ' out)" -eq 3 ] || fail "a line for each: $(cat out)"

# The rows are the answers of each alone; the document has the same.
expect 0 plan "${request[@]}" --precision bf16,fp32,fp8 --json -o best.yaml
mv out all
for precision in bf16 fp32 fp8; do
    expect 0 plan "${request[@]}" --precision $precision --json
    ! grep -q '"precisions"' out || fail "$precision alone has no choices"
    mv out $precision
done
python3 - <<'PY' || fail "the answers of each"
import json
all = json.load(open("all"))
alone = {name: json.load(open(name)) for name in ("bf16", "fp32", "fp8")}
assert len(all["precisions"]) == 3
assert all["precisions"][0]["precision"] == all["candidates"][0]["precision"]
for p in all["precisions"]:
    best = alone[p["precision"]]["candidates"][0]
    assert p["feasible"] and p["total_s"] == best["total_s"] and p["strategy"] == best["strategy"], p
    assert p["memory_bytes"] == best["memory_bytes"] and p["mesh"] == best["mesh"], p
    assert abs(p["times_best"] - p["total_s"] / all["precisions"][0]["total_s"]) < 1e-9, p
exact = all["search"]["exact"]
assert exact["certified"] and all["search"]["certified"]
assert exact["configurations"] == sum(a["search"]["exact"]["configurations"] for a in alone.values())
assert exact["evaluated"] + sum(exact["removed"].values()) == exact["configurations"]
PY
has best.yaml "precision: $(python3 -c 'import json; print(json.load(open("all"))["candidates"][0]["precision"])')"

expect 0 report all -o page.html
has page.html "Precision: "
expect 0 report all --text
has out "The best plan in each precision"

# A sweep says the precision of every point.
expect 0 plan --model gpt2-124m --system abci-v --pe 4..16 --batch 64 --precision fp32,fp16,fp8
has out "precision"
has out "fp8 is left out: "
expect 0 plan --model gpt2-124m --system abci-v --pe 4..16 --batch 64 --precision fp32,fp16,fp8 --json
python3 - <<'PY' || fail "the document of a sweep"
import json
for point in json.load(open("out"))["points"]:
    assert len(point["precisions"]) == 3 and point["precisions"][0]["precision"] == point["best"]["precision"], point
    assert not point["precisions"][2]["computed"] and "it has" in point["precisions"][2]["reason"]
PY

# What is exported is the best; --exhaustive and --explain know all.
expect 0 plan "${request[@]}" --precision fp32,bf16 --export megatron -o exported
has exported/plan.yaml "precision: bf16"
has exported/megatron_args.sh "--bf16"
expect 0 plan "${request[@]}" --precision fp32,bf16 --exhaustive --explain --strategy data
has out "Pareto front of time, memory and energy"

# Refused in one line.
expect 2 plan "${request[@]}" --precision bf16,bf16
has err "--precision: bf16 is named twice"
expect 2 plan "${request[@]}" --precision bf16,
has err "--precision: expected fp64"
expect 2 plan "${request[@]}" --precision bf16,fp4
has err 'found "fp4"'
expect 2 plan "${request[@]}" --precision nvfp4
has err "does not compute in nvfp4: it has fp64, fp32, tf32, fp16, bf16, fp8"
[ "$(wc -l <err)" -eq 1 ] || fail "more than a line: $(cat err)"

# On a device that has it NVFP4 is a choice like others; exports say what they can express of it, the trainer refuses it.
blackwell=(--model llama3-8b --system gb200 --pe 8 --optimizer adam --batch 64)
expect 0 plan "${blackwell[@]}" --precision bf16,fp8,nvfp4 --json -o best.yaml
python3 - <<'PY' || fail "the answers of bf16, fp8 and nvfp4"
import json
order = [p["precision"] for p in json.load(open("out"))["precisions"]]
assert order == ["nvfp4", "fp8", "bf16"], order
PY
has best.yaml "precision: nvfp4"
expect 0 plan "${blackwell[@]}" --precision nvfp4 --export megatron -o fp4
has fp4/megatron_args.sh "fp4-format 'e2m1'"
for framework in nemo fsdp torchtitan deepspeed; do
    expect 0 plan "${blackwell[@]}" --precision nvfp4 --export $framework -o $framework
    grep -rq "precision nvfp4" out $framework || fail "$framework says nothing of nvfp4: $(cat out)"
done
expect 0 plan --model lenet --system gb200 --pe 1 --batch 16 --precision nvfp4 -o one.yaml
expect 2 train one.yaml --data synthetic --steps 1
has err "precision nvfp4 cannot be trained here: use fp32, tf32 or bf16"
expect 2 plan --model resnet50 --system abci-v --pe 4 --precision fp8,bf16
has err "it has fp64, fp32, fp16"
[ "$(wc -l <err)" -eq 1 ] || fail "more than a line: $(cat err)"
expect 2 plan --model resnet50-orig --system abci-v --pe 4 --formulas orig --precision fp32,fp16
has err "--formulas orig projects one precision"

finish
