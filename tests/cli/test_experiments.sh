#!/usr/bin/env bash
# Every published claim can be looked at by one command; the ones that are quick are judged at full size.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

claims=$SOURCE/examples/experiments/claims.sh
for claim in C1 C2 C3 C4 C5 C6 C7 C8 C9; do
    bash "$claims" $claim --short >out 2>err || fail "claims.sh $claim --short: $(head -c 300 err)"
    has out "$claim  "
    [ ! -s err ] || fail "claims.sh $claim --short talks: $(head -c 300 err)"
done
bash "$claims" C8 --strict >out 2>err || fail "C8 at full size: $(cat out err)"
has out "within 7..8"
got=0
bash "$claims" C10 >out 2>err || got=$?
[ "$got" -eq 2 ] || fail "an unknown claim: exit status $got"

bash "$SOURCE/examples/experiments/shuffle_time.sh" --short shuffle >out 2>err || fail "shuffle_time.sh: $(head -c 300 err)"
[ ! -s err ] || fail "shuffle_time.sh talks: $(head -c 300 err)"
has out "fp32: reading from the file system grows"
has out "global / local never falls"
for precision in fp32 fp16; do
    has shuffle/epoch_$precision.svg "</svg>"
    [ "$(wc -l <shuffle/epoch_$precision.tsv)" -eq 4 ] || fail "shuffle/epoch_$precision.tsv has not three sizes"
done

# Training experiments, on made-up data: only that they run and draw.
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
python3 "$SOURCE/examples/experiments/shuffling.py" --quick --seeds 1 --epochs 1 --data synthetic --samples 1024 \
    --out shuffling >out 2>err || fail "shuffling.py: $(tail -3 err)"
has out "sorted partition, 1 epochs"
has shuffling/accuracy-sorted.svg "</svg>"
python3 "$SOURCE/examples/experiments/hiding.py" --quick --seeds 1 --data synthetic --out hiding >out 2>err ||
    fail "hiding.py: $(tail -3 err)"
has out "of the bound"
has hiding/hidden-synthetic.svg "</svg>"
python3 "$SOURCE/examples/experiments/aggregation.py" --quick --seeds 1 --data synthetic --samples 320 --out aggregation \
    >out 2>err || fail "aggregation.py: $(tail -3 err)"
for method in FedAvg SEM CADIS FedDCT; do has out "$method  "; done
has aggregation/accuracy-clusters.svg "</svg>"
python3 "$SOURCE/examples/experiments/pairing.py" --data synthetic --samples 512 --workers 16 --epochs 3 --batch 64 --seeds 1 --only paired \
    --out pairing >out 2>err || fail "pairing.py: $(tail -3 err)"
has out "label imbalance"
has pairing/synthetic-16.svg "</svg>"
if "$PARADL" --version | grep -q "MPI"; then
    python3 "$SOURCE/examples/experiments/sparse.py" --only synthetic --seeds 1 --ranks 2 --densities 0.1 --out sparse >out 2>err ||
        fail "sparse.py: $(tail -3 err)"
    has out "times less"
    python3 "$SOURCE/examples/experiments/feddct.py" --model lenet --data synthetic --samples 256 --rounds 1 --seeds 1 --out feddct >out 2>err ||
        fail "feddct.py: $(tail -3 err)"
    has out "FedDCT, two ranks"
    has sparse/synthetic.svg "</svg>"
    python3 "$SOURCE/examples/experiments/sparse_network.py" --model lenet --data synthetic --samples 64 --ranks 4 --steps 2 --bytes 1MiB \
        --out sparse_network >out 2>err || fail "sparse_network.py: $(tail -3 err)"
    has out "4 trained"
    has sparse_network/times.svg "</svg>"
fi
python3 "$SOURCE/examples/experiments/out_of_core.py" --model resnet18 --limit 2GiB --batches 64,128 --out out_of_core >out 2>err ||
    fail "out_of_core.py: $(tail -3 err)"
has out "recompute_cheap"
has out_of_core/rate.svg "planned</text>"

got=0
bash "$SOURCE/examples/experiments/shuffle_time.sh" --fast >out 2>err || got=$?
[ "$got" -eq 2 ] || fail "an unknown argument of shuffle_time.sh: exit status $got"
finish
