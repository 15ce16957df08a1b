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
for wrong in "sem:2" "cadis --hide 0.3" "local --ema 0.9" "feddct --nets 5" "local --shuffle paired:0.1"; do
    read -r -a words <<<"$wrong"
    if "$PARADL" "${common[@]}" --epochs 1 --aggregate "${words[@]}" >out 2>&1; then fail "$wrong was not refused"; fi
    grep -q "^paradl: " out || fail "$wrong: no message: $(tail -2 out)"
done
finish
