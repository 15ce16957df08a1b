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

expect 0 validate runs.csv --json
python3 - <<'PY' || fail "validate --json"
import csv, json
result = json.load(open("out"))
assert result["rows"] == 4 and result["all"]["rows"] == 3
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
expect 2 validate runs.csv --experiment nonesuch
has err "nonesuch"
expect 1 validate runs.csv -o /nowhere/at/all.csv
[ ! -s out ] || fail "output beside an error"
finish
