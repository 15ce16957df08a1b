#!/usr/bin/env bash
# train and eval: what cannot come to a good end is refused before anything is trained.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

run=(train --model lenet --data synthetic --samples 64 --threads 1 --quiet)

# Where results would go.
expect 1 "${run[@]}" --steps 1 --checkpoint a/b
has err "cannot write a checkpoint to a/b"
for rounds in "" "--aggregate=local"; do
    expect 1 "${run[@]}" --steps 1 --workers 2 --log steps.jsonl --trace a/trace.json $rounds
    has err "cannot write a/trace.json"
    [ ! -s steps.jsonl ] || fail "trained before the timeline was refused: $(head -1 steps.jsonl)"
done

# More ranks than could ever start here.
expect 2 "${run[@]}" --steps 1 --pe 1000000
has err "too many to start on"
expect 0 plan --model lenet --system abci-v --pe 4 --strategy data --batch 64 -o plan.yaml
sed 's/{data: 4}/{data: 1000000}/; s/batch: 64/batch: 1000000/' plan.yaml >large.yaml
expect 2 train large.yaml --data synthetic --steps 1
has err "too many to start on"

expect 2 calibrate --pe 1000000 -o local.yaml
has err "too many to start on"
# More than there are cores are not.
if [ "$(nproc --all)" -le 4 ]; then
    expect 0 "${run[@]}" --steps 1 --no-valid --pe $(($(nproc --all) + 1))
    has err "ranks share"
    [ "$(wc -l <err)" -eq 1 ] || fail "more than a warning: $(cat err)"
fi

# A plan says what a run is like.
for wrong in "--model resnet50" "--pe 2" "--strategy spatial" "--mesh data:2" "--micro-batches 2" \
    "--recompute full" "--sharding zero1" "--precision bf16" "--sync-batch-norm" "--pipeline-schedule gpipe" \
    "--virtual-stages 2"; do
    read -r -a words <<<"$wrong"
    expect 2 train plan.yaml --data synthetic --steps 1 "${words[@]}"
    has err "${words[0]}"
    has err "leave"
done

# Names with mistakes, also of options at the end of a long list.
expect 2 "${run[@]}" --steps 1 --system abci-vv
has err "did you mean abci-v"
expect 2 "${run[@]}" --steps 1 --chekpoint x
has err "did you mean --checkpoint"
expect 2 "${run[@]}" --steps 1 --shuffle partial
has err "--shuffle: partial"

# Checkpoints of another kind of run.
expect 0 "${run[@]}" --epochs 1 --checkpoint steps
expect 2 "${run[@]}" --epochs 2 --checkpoint steps --resume --workers 4 --aggregate local
has err "written with --aggregate step, this run has local"
expect 0 "${run[@]}" --epochs 1 --checkpoint rounds --workers 4 --aggregate local
expect 2 "${run[@]}" --epochs 3 --checkpoint rounds --resume --workers 2 --aggregate local
has err "the same --batch, --workers"
expect 0 "${run[@]}" --epochs 1 --checkpoint nets --workers 4 --aggregate feddct --nets 2
expect 2 eval nets --data synthetic
has err "nets of --aggregate feddct"
finish
