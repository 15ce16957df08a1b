#!/usr/bin/env bash
# Several ranks on a GPU, emulated: transports have the same bits, what cannot be is refused, and a rank that dies is named.
set -euo pipefail
. "$SOURCE/tests/cli/ranks.sh"

cat >net.yaml <<'END'
paradl: model/1
name: net
input: {channels: 3, size: [6, 6]}
layers:
  - conv: {name: a, out: 6, kernel: 3, pad: 1}
  - relu: {name: r}
  - flatten: {name: flat}
  - linear: {name: fc, out: 5}
  - cross_entropy: {name: loss}
END
run=(train --model net.yaml --data synthetic --samples 64 --batch 8 --lr 0.01 --no-valid --threads 1 --seed 3 --pe 2)

expect 2 "${run[@]}" --steps 2 --transport ipc
has err "--transport ipc is for GPUs: MPI itself sends memory of the cpu; use auto"
expect 2 "${run[@]}" --steps 2 --transport tcp
has err "--transport"

[ -e "$(dirname "$PARADL")/lib/paradl/libparadl-cuda_emulated.so" ] || { finish; exit 0; }
export PARADL_CUDA_EMULATED=1
run+=(--device cuda)
expect 2 "${run[@]}" --steps 2 --transport nccl
has err "--transport nccl: the emulated GPU has no NCCL; use --transport auto"
for strategy in data spatial pipeline; do
    more=()
    [ "$strategy" != pipeline ] || more=(--micro-batches 2)
    for transport in host ipc; do
        rm -rf "$transport"
        expect 0 "${run[@]}" --steps 3 --strategy "$strategy" "${more[@]}" --transport "$transport" --checkpoint "$transport"
        has out "memory of GPUs goes between ranks by $transport"
        has out "2 ranks share a GPU and have it in turns; with NVIDIA MPS they would not"
    done
    cmp host/step-*/model.safetensors ipc/step-*/model.safetensors || fail "$strategy: weights differ"
    [ "$strategy" != data ] || mv host dense
done
# Sparse sums: all elements are the dense run; few are few bytes, and a resumed run is the whole one.
expect 0 "${run[@]}" --steps 3 --gradient-sparsity 1e-9 --checkpoint all
tensors() { tail -c "$((4 * 1253))" "$1"/step-00000003/model.safetensors; } # behind a head that names the options
cmp <(tensors dense) <(tensors all) || fail "sparse sums of all elements are not the dense ones"
few=("${run[@]}" --steps 4 --gradient-sparsity 0.9 --checkpoint few --checkpoint-every 2)
expect 0 "${few[@]}"
has out "allreduce by sparse_ring of 10 % of the elements; rank 0 sent "
cp few/step-00000004/model.safetensors whole
rm -r few/step-00000004
expect 0 "${few[@]}" --resume
cmp whole few/step-00000004/model.safetensors || fail "a resumed run with sparse sums differs"
expect 0 "${run[@]}" --steps 1 --json
has out '"transport": "ipc"'
has out '"ranks_in_turns": 2'

# One rank is killed while the other waits for it.
timeout -k 1 60 "$PARADL" "${run[@]}" --steps 1000000 --quiet --checkpoint ck --checkpoint-every 5 >out 2>err </dev/null &
job=$!
for _ in $(seq 600); do
    ls ck 2>/dev/null | grep -q 'step-0*[1-9]' && break
    sleep 0.05
done
pid=$(pid_of "$job" 1)
[ -n "$pid" ] || fail "rank 1 is not there: $(cat err)"
kill -KILL "$pid"
got=0
wait "$job" || got=$?
[ "$got" -eq 1 ] || fail "status $got: $(head -c 300 err)"
has err "paradl: rank 1 was ended by signal 9 (Killed), last heard of in "
finish
