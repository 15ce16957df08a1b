#!/usr/bin/env bash
# Sharded state on 2, 3 and 4 ranks gives the numbers of whole state, and takes less memory.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ -n "${PROGRAM_SHARDING-}" ] || { echo "skipped: built without MPI"; exit 77; }
for count in 2 3 4; do
    ranks "$count" "$PROGRAM_SHARDING" >out 2>&1 || fail "$count ranks: $(grep -v '^ok' out | head -5)"
    [ "$(grep -c "^$count ranks" out)" -eq "$count" ] || fail "not $count ranks: $(tail -3 out)"
done
ranks 2 "$PROGRAM_SHARDING" bf16 >out 2>&1 || grep -q "bf16" out || fail "16 bits: $(grep -v '^ok' out | head -5)"
finish
