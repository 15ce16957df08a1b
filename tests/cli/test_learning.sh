#!/usr/bin/env bash
# Short forms of tests/long/test_learning.sh: after a few updates on real data a run knows more than chance.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"
# Open MPI itself leaks.
export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-}

learned() {
    python3 - "$1" "$2" <<'PY' || fail "$1: the loss stays at $(tail -2 "$1.jsonl" | head -c 200)"
import json, sys

losses = [line["loss"] for line in map(json.loads, open(sys.argv[1] + ".jsonl")) if "step" in line]
last = sum(losses[-5:]) / 5
print(f"{sys.argv[1]}: {losses[0]:.3f} -> {last:.3f}")
sys.exit(last > float(sys.argv[2]))
PY
}

expect 0 train --model gpt-char-small --data tinyshakespeare --steps 120 --batch 8 --optimizer adamw --lr 0.003 --clip 1 \
    --no-valid --threads 1 --quiet --log text.jsonl
learned text 2.9
# Images need their files, which a machine without a network may not have.
if "$PARADL" data get fashion-mnist >/dev/null 2>&1; then
    expect 0 train --model lenet --data fashion-mnist --steps 150 --batch 32 --lr 0.05 --no-valid --threads 1 --quiet \
        --log lenet.jsonl
    learned lenet 1.0
    expect 0 train --model resnet-tiny --data fashion-mnist --steps 30 --batch 32 --lr 0.05 --augment crop:2,flip \
        --no-valid --threads 1 --quiet --log resnet.jsonl
    learned resnet 1.6
else
    echo "skipped: fashion-mnist cannot be obtained here"
fi
finish
