#!/usr/bin/env bash
# Moves of regions on few ranks, and on one without mpirun.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

"$PROGRAM_REGIONS" >out 2>&1 || fail "without mpirun: $(grep -v '^ok' out | head -5)"
for count in 1 2 3 4 5; do
    ranks "$count" "$PROGRAM_REGIONS" >out 2>&1 || fail "$count ranks: $(grep -v '^ok' out | head -5)"
    [ "$(grep -c "^$count ranks" out)" -eq "$count" ] || fail "not $count ranks: $(grep 'ranks$' out)"
done
finish
