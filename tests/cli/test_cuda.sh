#!/usr/bin/env bash
# --device: what is not there is refused in one line.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

refused() {
    local text=$1
    shift
    expect 2 "$@"
    has err "$text"
    [ "$(wc -l <err)" -eq 1 ] || fail "more than one line: $(cat err)"
}
lenet=(train --model lenet --data synthetic --steps 1 --batch 4 --threads 1)

for name in gpu cuda: cuda:x cuda:-1 cuda:12345; do
    refused "--device $name: use cpu, cuda, cuda:N, auto, dry or dry:cuda" "${lenet[@]}" --device "$name"
done
refused "--device dry: use cpu, cuda, cuda:N or auto" calibrate -o system.yaml --device dry
[ ! -e system.yaml ] || fail "a file is left behind"

# Without the plugin.
mkdir empty
for command in "${lenet[*]}" "calibrate -o system.yaml"; do
    # shellcheck disable=SC2086
    PARADL_LIB=$PWD/empty refused "--device cuda needs CUDA: there is no $PWD/empty/libparadl-cuda.so; install NVIDIA's CUDA" \
        $command --device cuda
done
# With it, where there is no GPU.
if [ -e "$(dirname "$PARADL")/lib/paradl/libparadl-cuda.so" ] && [ ! -e /dev/nvidia0 ]; then
    refused "no NVIDIA GPU here" "${lenet[@]}" --device cuda
    refused "use --device cpu" "${lenet[@]}" --device cuda:0
fi
# Images are loaded in the format that the first layer reads, unless another rank has part of its rows.
expect 0 train --model resnet50 --data synthetic --batch 2 --device dry:cuda
has out "  0  load"
! grep -q "convert input" out || fail "$(grep convert out)"
[ -e /dev/nvidia0 ] || expect 0 "${lenet[@]}" --device auto
refused "precision tf32 is for GPUs: use --device cuda, or fp32" "${lenet[@]}" --precision tf32
expect 0 "${lenet[@]}" --precision tf32 --device dry:cuda

# A host that takes a millisecond to queue an operation delays those that are queued one by one, and not those of a graph.
for graphs in true false; do
    sed "s/^  queue: .*/  queue: 1ms/; s/^  issue: .*/  issue: 1ms/; s/^  graphs: .*/  graphs: $graphs/" "$SOURCE/share/systems/h200-paradl.yaml" >$graphs.yaml
    expect 0 plan --model lenet --system $graphs.yaml -n 1 --batch 64 --strategy serial --json
    python3 -c 'import json; print(json.load(open("out"))["candidates"][0]["total_s"])' >$graphs
done
awk 'NR == FNR { graphs = $1; next } { exit !(graphs < 0.003 && $1 > 0.01) }' true false || fail "graphs: $(cat true), without: $(cat false)"

if [ -e "$(dirname "$PARADL")/lib/paradl/libparadl-cuda_emulated.so" ]; then
    export PARADL_CUDA_EMULATED=1
    refused "there is no GPU 3: there is one, number 0" "${lenet[@]}" --device cuda:3
    refused "of memory are needed on the GPU, 8.00 GiB of its 8.00 GiB are free: lower --batch" \
        train --model "$SOURCE/tests/train/models/language.yaml" --data synthetic --samples 500000 \
        --steps 1 --batch 500000 --no-valid --device cuda
    # The first two steps are timed, kernel by kernel.
    expect 0 train --model lenet --data synthetic --samples 8 --steps 4 --batch 1 --no-valid --device cuda
    has out "passes over the network replayed as a graph of kernels: 2"
    PARADL_GRAPHS=0 expect 0 train --model lenet --data synthetic --samples 8 --steps 4 --batch 1 --no-valid --device cuda
    ! grep -q "replayed as a graph" out || fail "graphs with PARADL_GRAPHS=0"
    # Experts on several ranks: rows go to them and come back.
    losses() {
        rm -f log
        # Open MPI itself leaks.
        ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-} expect 0 train --model "$SOURCE/tests/train/models/experts.yaml" --data synthetic --samples 8 \
            --batch 4 --steps 2 --no-valid --quiet --log log "$@"
        python3 -c 'import json; print([row["loss"] for row in map(json.loads, open("log")) if "step" in row])'
    }
    if [ -e "$(dirname "$PARADL")/lib/paradl/libparadl-ranks.so" ]; then
        serial=$(losses --device cpu)
        for count in 2 3; do
            ranks=$(losses --device cuda --devices "$count" --strategy tensor)
            python3 -c "assert len($serial) == len($ranks) == 2 and all(abs(a - b) < 1e-5 for a, b in zip($serial, $ranks))" ||
                fail "experts on $count ranks: $ranks where one has $serial"
        done
    fi
    # What a plan says of memory is what a run takes, batches on the GPU included.
    expect 0 plan --model lenet --system h200-paradl -n 1 --batch 64 --strategy serial -o memory.yaml --json
    cp out planned.json
    expect 0 train memory.yaml --data synthetic --samples 64 --steps 1 --no-valid --device cuda --json
    python3 -c 'import json
planned, run = (json.load(open(name)) for name in ("planned.json", "out"))
assert planned["candidates"][0]["memory_bytes"] == run["memory_bytes"] > 64 * 28 * 28 * 4 * 2, run["memory_bytes"]' ||
        fail "a run takes other memory than its plan says"
fi
finish
