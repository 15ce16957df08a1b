#!/usr/bin/env bash
# Rounds validate, keep checkpoints and write timelines when they are asked to, and no option is ignored.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

common=(train --model lenet --data synthetic --samples 320 --batch 32 --workers 4 --lr 0.01 --quiet)
# A cycle of local:3 has rounds of 3, 3, 3 and 1 updates.
often=(--aggregate local:3 --valid-every 4 --checkpoint-every 7 --keep 9 --checkpoint)

# validated LOG: the updates after which there was a validation.
validated() {
    python3 - "$1" <<'PY'
import json, sys

step, found = 0, []
for line in map(json.loads, open(sys.argv[1])):
    step = line.get("step", step)
    if "valid_loss" in line:
        found.append(step)
print(*found)
PY
}

expect 0 "${common[@]}" "${often[@]}" whole --epochs 2 --log whole.jsonl
[ "$(validated whole.jsonl)" = "6 9 13 16 20" ] || fail "validated after $(validated whole.jsonl)"
[ "$(ls whole | xargs)" = "step-00000009 step-00000016 step-00000020" ] || fail "kept $(ls whole | xargs)"
# The run may end inside a cycle, and goes on from there; --steps are up when a round has reached them.
expect 0 "${common[@]}" "${often[@]}" part --steps 7
[ "$(ls part | xargs)" = "step-00000009" ] || fail "kept $(ls part | xargs)"
expect 0 "${common[@]}" "${often[@]}" part --epochs 2 --resume --log part.jsonl
[ "$(validated part.jsonl)" = "13 16 20" ] || fail "validated after $(validated part.jsonl)"
cmp whole/step-00000020/model.safetensors part/step-00000020/model.safetensors || fail "resuming gives other weights"

# On two ranks, from a checkpoint inside a cycle in which samples change hands.
for kind in "local:3 --shuffle partial:0.3 --keep-moments" "sem --checkpoint-every 1" "feddct --nets 2"; do
    read -r -a words <<<"--aggregate $kind"
    rm -rf two twice
    expect 0 "${common[@]}" "${words[@]}" --pe 2 --epochs 6 --checkpoint two
    expect 0 "${common[@]}" "${words[@]}" --pe 2 --steps 16 --checkpoint twice
    has_rest=$(find twice -name "step-*" | wc -l)
    expect 0 "${common[@]}" "${words[@]}" --pe 2 --epochs 6 --checkpoint twice --resume
    [ "$has_rest" -gt 0 ] || fail "$kind: no checkpoint"
    (cd two && find . -name model.safetensors | sort | tail -1) >last
    cmp "two/$(cat last)" "twice/$(cat last)" || fail "$kind on two ranks: resuming gives other weights"
done

# Timelines: every update of every worker of the rank, and of every net.
events() {
    python3 -c 'import json, sys
names = [e["name"] for e in json.load(open("t.json"))["traceEvents"] if e["ph"] == "X" and e["pid"] == int(sys.argv[1])]
print(*(sum(n.startswith(p) for n in names) for p in sys.argv[2:]))' "$@"
}
expect 0 "${common[@]}" --aggregate local:3 --steps 6 --trace t.json
[ "$(events 0 update worker mean)" = "24 8 2" ] || fail "local: $(events 0 update worker mean)"
expect 0 "${common[@]}" --aggregate sem --epochs 2 --pe 2 --trace t.json
[ "$(events 1 update worker mean models)" = "40 4 1 1" ] || fail "sem: $(events 1 update worker mean models)"
expect 0 "${common[@]}" --aggregate feddct --nets 2 --epochs 1 --trace t.json
[ "$(events 0 update worker mean)" = "80 8 2" ] || fail "feddct: $(events 0 update worker mean)"

# refused OPTION... : names the first option, says why and what to do.
refused() {
    expect 2 "${common[@]}" --epochs 1 "$@"
    has err "${1%% *}"
    grep -qE ": (use|leave|add|lower|change)|; or" err || fail "$*: no remedy: $(cat err)"
    [ "$(wc -l <err)" -eq 1 ] || fail "$*: more than a line: $(cat err)"
}
for wrong in "--ema 0.9" "--hide 0.3" "--hide-method random" "--shuffle paired:0.1" "--sync-batch-norm" "--system abci-v" \
    "--statistics first" "--device dry" "--max-memory 1MB"; do
    for kind in local cadis feddct; do
        read -r -a words <<<"$wrong"
        expect 2 "${common[@]}" --epochs 1 --aggregate "$kind" "${words[@]}"
        grep -q "^paradl: .*: \(use\|leave\|lower\|let\) " err || fail "$kind $wrong: $(cat err)"
    done
done
for wrong in "--local-epochs 2" "--second-epochs 2" "--keep-moments" "--hops 3" "--cluster-threshold 0.1" "--distill 2" \
    "--temperature 2" "--nets 2" "--agreement 1" "--agreement-warmup 3" "--mixup 0.2" "--published-warmup" \
    "--partition sorted" "--destination shift" "--pair-score max" "--pair-samples top" "--random-match-every 2" \
    "--hide-without rate" "--hide-threshold 0.5" "--hide-milestones 1" "--hide-factors 1,1,1,1" "--hide-scope local" \
    "--hide-confidence batch" "--hide-rate most" "--hide-trim 0.1" "--hide-beta 2" "--hide-until 0.5" \
    "--refresh-every 2" "--refresh-mode training" "--checkpoint-every 3" "--keep 3" "--rank 1" "--store memory"; do
    read -r -a words <<<"$wrong"
    refused "${words[@]}"
done
refused --valid-every 2 --no-valid
refused --local-epochs 2 --aggregate local:3
refused --second-epochs 2 --aggregate feddct --nets 2
refused --hops 3 --aggregate cadis
refused --sharding zero1 --aggregate local
finish
