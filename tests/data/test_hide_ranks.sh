#!/usr/bin/env bash
# Hiding on 1, 2, 3 and 8 ranks: the same samples with every method, and the same state bit by bit.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"
[ -n "${PROGRAM_HIDE-}" ] || { echo "skipped: built without MPI"; exit 77; }

"$PROGRAM_HIDE" >out 2>&1 || fail "without mpirun: $(grep -v '^ok' out | head -5)"
grep '^run' out >alone || fail "no runs: $(cat out)"
for count in 2 3 8; do
    ranks "$count" "$PROGRAM_HIDE" >out 2>&1 || fail "$count ranks: $(grep -v '^ok' out | head -5)"
    grep '^run' out | cmp - alone || fail "$count ranks hide other samples: $(grep '^run' out | diff - alone)"
done
finish
