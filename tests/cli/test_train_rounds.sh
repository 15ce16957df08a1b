#!/usr/bin/env bash
# Runs in rounds: every kind trains, goes on from a checkpoint with the same bits, and refuses what does not go with it.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

common=(train --model lenet --data synthetic --samples 320 --batch 32 --workers 4 --lr 0.01 --quiet)
for kind in local local:3 sem cadis "feddct --nets 2"; do
    read -r -a words <<<"$kind"
    name=${words[0]/:/_}
    "$PARADL" "${common[@]}" --aggregate "${words[@]}" --epochs 4 --checkpoint "whole-$name" >out 2>&1 ||
        fail "$kind: $(tail -2 out)"
    "$PARADL" "${common[@]}" --aggregate "${words[@]}" --epochs 2 --checkpoint "part-$name" >out 2>&1 ||
        fail "$kind, first half: $(tail -2 out)"
    "$PARADL" "${common[@]}" --aggregate "${words[@]}" --epochs 4 --checkpoint "part-$name" --resume >out 2>&1 ||
        fail "$kind, second half: $(tail -2 out)"
    (cd "whole-$name" && find . -name "model.safetensors" | sort | tail -1) >last
    [ -s last ] || fail "$kind: no weights were written"
    cmp "whole-$name/$(cat last)" "part-$name/$(cat last)" || fail "$kind: resuming gives other weights"
done
# What a mean was made of is in the log and the summary: made-up samples of a class are the same at every worker.
"$PARADL" "${common[@]}" --aggregate cadis --partition sorted --epochs 4 --log log --json >summary.json 2>err ||
    fail "cadis, sorted: $(tail -2 err)"
python3 - <<'PY' || fail "clusters in log and summary: $(tail -1 log)"
import json

rounds = [line for line in map(json.loads, open("log")) if "step" in line]
last = json.load(open("summary.json"))["clusters"]
assert len(rounds) == 2
for line in rounds:
    assert abs(sum(line["shares"]) - 1) < 1e-9 and max(line["cluster"]) + 1 == line["clusters"]
    assert -1 <= line["similarity_least"] <= line["similarity_median"] <= line["similarity_most"] <= 1.000001
    assert 0 <= line["trust"] <= 1
assert last["count"] == rounds[-1]["clusters"] and sum(last["workers"]) == 4
assert last["threshold"] == rounds[-1]["threshold"] and last["similarity_least"] == rounds[-1]["similarity_least"]
PY
"$PARADL" "${common[@]}" --aggregate cadis --cluster-threshold -1 --epochs 2 >out 2>&1 || fail "threshold -1: $(tail -2 out)"
grep -q "^1 cluster of 4 workers, each with 100.0 % of the mean; similarity .* threshold -1.00" out || fail "$(cat out)"
for wrong in "sem:2" "cadis --cluster-threshold high" "cadis --cluster-threshold 1.5" "cadis --hide 0.3" "local --ema 0.9" "feddct --nets 5" "local --shuffle paired:0.1"; do
    read -r -a words <<<"$wrong"
    if "$PARADL" "${common[@]}" --epochs 1 --aggregate "${words[@]}" >out 2>&1; then fail "$wrong was not refused"; fi
    grep -q "^paradl: " out || fail "$wrong: no message: $(tail -2 out)"
done
finish
