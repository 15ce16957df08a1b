#!/usr/bin/env bash
# Workers on 2, 3 and 4 ranks come to the weights of the same workers on one rank, for every kind of round.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_AGGREGATE-}" ] || { echo "skipped: built without MPI"; exit 77; }
for count in 2 3 4; do
    ranks "$count" "$PROGRAM_AGGREGATE" >out 2>&1 || fail "$count ranks: $(grep FAIL out | head -4)"
    grep "^$count ranks:" out || fail "no result on $count ranks: $(tail -3 out)"
done
finish
