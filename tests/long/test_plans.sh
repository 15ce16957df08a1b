#!/usr/bin/env bash
# 400 random plans on 2 to 8 ranks give the numbers of one rank.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_PLANS-}" ] || { echo "skipped: built without MPI"; exit 77; }
for case in "2 100" "3 80" "4 100" "6 60" "8 60"; do
    read -r count plans <<<"$case"
    timeout 900 mpirun --oversubscribe --mca mpi_yield_when_idle 1 -n "$count" "$PROGRAM_PLANS" 100 "$plans" >out 2>&1 ||
        fail "$count ranks: $(grep -A1 FAIL out | head -8)"
    grep "^$count ranks:" out || fail "no result on $count ranks: $(tail -3 out)"
done
finish
