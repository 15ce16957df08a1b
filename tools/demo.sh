#!/usr/bin/env bash
# The whole circle on this machine: measure it, plan for it, train under the plan, lay projected beside measured.
# Takes under three minutes on two cores. PARADL is the command; files are left in FOLDER (build/demo).
set -euo pipefail

paradl=${PARADL:?}
folder=${FOLDER:-build/demo}
ranks=$(nproc)
[ "$ranks" -le 2 ] || ranks=2
mkdir -p "$folder"

say() { printf '\n== %s\n' "$*"; }

# A plan that needs more ranks than there are cores would show nothing.
say "this machine, measured quickly"
"$paradl" calibrate -o "$folder/here.yaml" --pe "$ranks" --threads 1 --quick

data=(--data fashion-mnist)
planned=fashion-mnist
if ! "$paradl" data get fashion-mnist; then
    echo "Fashion-MNIST cannot be had here: made-up samples take its place"
    data=(--data synthetic --samples 20000)
    planned=synthetic
fi

say "plans for a small residual network on $ranks devices"
"$paradl" plan --model resnet-tiny --data "$planned" --system "$folder/here.yaml" --pe "$ranks" --batch 64 \
    --top 6
# Of the plans that are projected to be about as fast, the one that every machine can carry out.
"$paradl" plan --model resnet-tiny --data "$planned" --system "$folder/here.yaml" --pe "$ranks" --batch 64 \
    --strategy data -o "$folder/plan.yaml" >/dev/null

say "one epoch under the data-parallel plan"
"$paradl" train "$folder/plan.yaml" "${data[@]}" --system "$folder/here.yaml" --threads 1 --epochs 1 --lr 0.05 \
    --log "$folder/run.jsonl"

say "the plan and the run as a page: open it in a browser"
"$paradl" plan --model resnet-tiny --data "$planned" --system "$folder/here.yaml" --pe "$ranks" --batch 64 \
    --json --layers --explain >"$folder/plan.json"
"$paradl" report "$folder/plan.json" "$folder/run.jsonl" -o "$folder/report.html"
