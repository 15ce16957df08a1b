#!/usr/bin/env bash
# validate: projections of a small table of runs, in a table, in JSON and in a file; what cannot be expressed is
# named.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

cat >runs.csv <<'CSV'
id,source,model,dataset,strategy,p,gpus_per_node,p_data,p_model,samples_per_gpu,global_batch,quantity,value_seconds,per,quality,notes
a,here,resnet50,ImageNet,data,16,4,16,1,64,1024,compute,0.2,iteration,A,
"b,""2""",here,resnet50,ImageNet,data,16,4,16,1,64,1024,total,0.25,iteration,A,"a note, with a comma"
c,there,vgg16,ImageNet,data,16,4,16,1,32,512,total,0.3,iteration,A,
d,there,nonesuch,ImageNet,data,16,4,16,1,32,512,total,0.3,iteration,A,
CSV
expect 0 validate runs.csv -o predictions.csv
for text in "accuracy" "source" "strategy" "model" "quantity" "here" "there" "4 rows, 3 of them expressed, 1 not" \
    "1 x no model nonesuch"; do
    has out "$text"
done
grep -q '^ *d$' out || fail "the row that cannot be expressed is not named"
python3 - <<'PY' || fail "predictions.csv"
import csv
rows = list(csv.DictReader(open("predictions.csv")))
assert [r["id"] for r in rows] == ["a", 'b,"2"', "c"], rows
assert list(rows[0]) == ["id", "seconds", "low", "high"]
for r in rows: assert 0 < float(r["low"]) <= float(r["seconds"]) <= float(r["high"])
PY

# As Excel writes it, and as programs that translate its line ends once more leave it; to standard output too.
{ printf '\xef\xbb\xbf'; sed 's/$/\r/' runs.csv; } >excel.csv
sed 's/$/\r/' excel.csv >twice.csv
for table in excel twice; do
    expect 0 validate $table.csv -o again.csv
    cmp -s predictions.csv again.csv || fail "$table.csv gives other predictions"
done
expect 0 validate runs.csv -o -
cmp -s predictions.csv out || fail "-o - writes $(head -c 300 out)"
has err "4 rows, 3 of them expressed, 1 not"
"$PARADL" validate runs.csv -o /dev/stdout 2>err | cmp -s predictions.csv - || fail "-o /dev/stdout: $(cat err)"
[ ! -e - ] || fail "a file called - was written"

expect 0 validate runs.csv --json
python3 - <<'PY' || fail "validate --json"
import csv, json
result = json.load(open("out"))
assert result["paradl"] == "validation/1" and result["command"][:2] == ["paradl", "validate"]
rows = result["rows"]
assert [r["id"] for r in rows] == ["a", 'b,"2"', "c", "d"] and rows[3]["projected"] is None and rows[3]["reason"]
assert all(r["low"] <= r["projected"] <= r["high"] for r in rows[:3])
assert result["row_count"] == 4 and result["all"]["rows"] == 3
assert [r["id"] for r in result["not_expressed"]] == ["d"]
seconds = {r["id"]: float(r["seconds"]) for r in csv.DictReader(open("predictions.csv"))}
measured = {"a": 0.2, 'b,"2"': 0.25, "c": 0.3}
mean = sum(1 - abs(seconds[i] - m) / m for i, m in measured.items()) / 3
assert abs(mean - result["all"]["mean"]) < 1e-6
PY

expect 0 validate runs.csv --write-parameters used.yaml
has used.yaml "paradl: parameters/1"
expect 0 validate runs.csv --parameters used.yaml -o again.csv
cmp -s predictions.csv again.csv || fail "parameters that were written and read again project differently"
# The layout of published runs.
cat >published.csv <<'CSV'
run_id,source,family,model,layers,hidden,heads,vocab,seq_len,accelerator,gpus,gpus_per_node,precision,tp,pp,dp,recompute,micro_batch,global_batch,framework,iter_time_s,outcome
a,x,transformer,GPT,24,2304,24,51200,2048,A100-SXM,32,8,fp16,1,1,32,full,8,512,Megatron-LM,3.5,ok
"b,2",x,transformer,GPT,80,12288,96,51200,2048,A100-SXM,8,8,fp16,8,1,1,full,1,8,Megatron-LM,,oom
c,y,cnn2d,Squeezed,,,,,,A100-SXM,32,8,fp16,1,1,32,,8,512,PyTorch,3.5,ok
CSV
expect 0 validate published.csv -o published-out.csv
for text in "mean over 1 sources: time" "1 of 1" "3 rows, 2 of them expressed, 1 not" "1 x model Squeezed is not in the zoo"; do
    has out "$text"
done
grep -q '^ *c$' out || fail "the published run that cannot be expressed is not named"
python3 - <<'PY' || fail "predictions of published runs"
import csv
rows = list(csv.DictReader(open("published-out.csv")))
assert list(rows[0]) == ["run_id", "iter_time_s", "low", "high", "mem_gb", "outcome"], rows[0]
assert [(r["run_id"], r["outcome"]) for r in rows] == [("a", "ok"), ("b,2", "oom")], rows
for r in rows: assert 0 < float(r["low"]) <= float(r["iter_time_s"]) <= float(r["high"]) and float(r["mem_gb"]) > 0
PY
expect 0 validate published.csv --json
python3 - <<'PY' || fail "validate --json of published runs"
import json
result = json.load(open("out"))
assert result["all"]["rows"] == 3 and result["all"]["oom_found"] == 1
assert [s["source"] for s in result["sources"]] == ["x", "y"]
assert [r["id"] for r in result["not_expressed"]] == ["c"]
PY
expect 2 validate published.csv --cross-validate

expect 2 validate runs.csv --experiment nonesuch
has err "nonesuch"
expect 1 validate runs.csv -o /nowhere/at/all.csv
[ ! -s out ] || fail "output beside an error"
# The interval of machines that were not measured holds what was published of some, sources weighing alike.
expect 0 validate "$SOURCE/share/measured/published_runs.csv" --parameters default
python3 - <<'PY' || fail "coverage of the estimated interval: $(head -30 out)"
import re
shares = [int(m.group(1)) for m in (re.search(r"[+-]0\.\d+ +(\d+) %", line) for line in open("out") if not line.startswith("all")) if m]
assert len(shares) == 21 and 85 <= sum(shares) / 21 <= 97, shares
PY
finish
